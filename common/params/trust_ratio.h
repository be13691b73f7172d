// Trust ratios: LARS and LAMB multiply the step of a tensor by a number of the tensor's own, so that each layer
// changes by about the same share of itself, however large its gradients are. So large mini-batches can have
// large learning rates (docs/LARGE_BATCHES.md).
//
//   LARS   r = eta |w| / (|g| + wd |w| + epsilon), g without the decay
//          (You, Gitman and Ginsburg, "Large batch training of convolutional networks", 2017, (6) and
//          algorithm 1; epsilon, and r = 1 for zero norms, from MLPerf's lars_optimizer.py)
//     trust_norm with_decay   r = eta |w| / (|g + wd w| + epsilon)       (optax)
//     trust_clip              min(r / lr, 1) in the place of r, lr the tensor's rate: a step of min(r, lr) g
//                             (apex' LARC with clip)
//   LAMB   r = |w| / |u|,  u = Adam's step of rate 1 + wd w
//          (You et al., "Large batch optimization for deep learning: training BERT in 76 minutes", ICLR 2020,
//          algorithm 2, phi the identity)
//
// r is 1 where |w| or the other norm is 0, so that a tensor that begins with zeros learns, and for the tensors
// that do not adapt (StepFactors::adapts); there nothing clips. It is at most trust_ratio_max.
//
//   w = (3, 4), g = (0, 1), eta 0.001, wd 0, epsilon 0    r = 0.001 x 5 / 1 = 0.005
//
// A norm is the root of a sum of squares in double. A tensor is cut into parts of kPart floats, counted from its
// own begin; a part is summed in kLanes lanes, the lanes and then the parts are added in order. So the bits are
// the same whatever the blocks, the shards (which cut no such tensor: shard_ranges.h) and the threads.
//
// Thread: one at a time; what `run` runs may go on in several at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "common/config/optimizer_section.h"
#include "common/params/partition.h"
#include "common/params/step_factors.h"

namespace paceline {

// Floats of a vector from `offset` on: at most `n` >= 1 of them, at least one, as many as lie together.
using FloatsFrom = std::function<std::span<const float>(std::int64_t offset, std::int64_t n)>;
// Of a vector that lies in one piece.
FloatsFrom floats_of(std::span<const float> whole);

// Calls work(i) for i in [0, count), in any order, also several at once; returns when all are done.
using RunParts = std::function<void(std::int64_t count, const std::function<void(std::int64_t i)>& work)>;
void run_in_turn(std::int64_t count, const std::function<void(std::int64_t i)>& work);

// What is measured. All have the length of the optimizer's range; the moments are LAMB's, with this step's
// gradient in them.
struct MeasuredVectors {
  FloatsFrom parameters;
  FloatsFrom gradient;
  FloatsFrom first;
  FloatsFrom second;
};

class TrustRatios {
 public:
  // For a range of `size` floats. Without `factors` nothing adapts.
  TrustRatios(const OptimizerSection& settings, std::int64_t size, const FactorRanges& factors);

  // Of the step that is the `t`-th, the first being 1, with this learning rate.
  void measure(const MeasuredVectors& vectors, std::int64_t t, double learning_rate, const RunParts& run);
  // By the number of a piece of the factors (FactorRanges::for_each_numbered); 1 before measure().
  double of(std::size_t piece) const { return ratios_[piece]; }

 private:
  static constexpr std::int64_t kPart = 4096;
  struct Part {
    Range range;
    std::size_t piece = 0;
    double decay = 0.0;  // the tensor's weight decay
    double lr = 1.0;     // and the factor of its rate
  };
  struct Squares {
    double parameters = 0.0;
    double other = 0.0;  // LARS' gradient, maybe with decay, LAMB's direction
  };
  Squares squares_of(const Part& part, const MeasuredVectors& vectors, std::int64_t t) const;
  double ratio(const Squares& sums, const Part& of, double learning_rate) const;

  OptimizerSection settings_;
  std::vector<Part> parts_;
  std::vector<Squares> sums_;  // by part
  std::vector<double> ratios_;
};

}  // namespace paceline
