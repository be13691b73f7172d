// The optimizer of a contiguous range of parameters: SGD, momentum (Nesterov's too), Adam, LARS and LAMB, with weight
// decay added to the gradient or decoupled, and the state that goes with them. The server has one for its
// shard; a worker has one for its local apply. Learning rate and weight decay are multiplied by factors of
// the tensor that an element is of (step_factors.h).
//
// With g the gradient, p the parameter, lr the learning rate, wd the weight decay (all element by element):
//   coupled decay      g <- g + wd p          decoupled: lr wd p is taken from p instead
//   with decay_norm l1 g <- g + wd sign(p)    sign(0) is 0
//                                             (AdamW; Loshchilov, Hutter, 2019)
//   sgd                p <- p - lr g
//   momentum mu        u <- mu u + g;         p <- p - lr u       (Nesterov: p <- p - lr (g + mu u))
//     form inside      u <- mu u + lr g;      p <- p - u          (Nesterov: p <- p - (lr g + mu u))
//                                             (Caffe: sgd_solver.cpp, nesterov_solver.cpp; another rate acts
//                                             on what comes, not on what is kept: with the correction of Goyal
//                                             et al., 2017, section 3, it is the form outside)
//   adam b1, b2, eps   m <- b1 m + (1 - b1) g;  v <- b2 v + (1 - b2) g^2
//                      p <- p - lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps)
//                                             (Kingma, Ba, 2015, Algorithm 1)
//     epsilon_hat      p <- p - lr sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + eps)
//                                             (section 2 there; Caffe: adam_solver.cpp)
//   lars mu, eta       r the tensor's trust ratio, coupled decay in g
//     form inside      u <- mu u + lr r g;    p <- p - u          (Nesterov: p <- p - (lr r g + mu u))
//                                             (You et al., 2017, algorithm 1; inside where nothing is said)
//     form outside     u <- mu u + r g;       p <- p - lr u       (LARC without clip, with PyTorch's momentum)
//   lamb b1, b2, eps   m, v as adam's, of g without decay
//                      p <- p - lr r (m / (1 - b1^t) / (sqrt(v) / sqrt(1 - b2^t) + eps) + wd p)
//                                             (You et al., 2020, algorithm 2); trust ratios: trust_ratio.h
//   adagrad eps        h <- h + g^2;          p <- p - lr g / (sqrt(h) + eps)
//   rmsprop rho, eps   h <- rho h + (1 - rho) g^2;  p <- p - lr g / (sqrt(h) + eps)
//   adadelta rho, eps  h <- rho h + (1 - rho) g^2;  u = g sqrt((x + eps) / (h + eps))
//                      x <- rho x + (1 - rho) u^2;  p <- p - lr u
//                                             (Caffe: adagrad_, rmsprop_, adadelta_solver.cpp)
// A buffer (layout.h), of any kind, takes no part in these: it goes a part of the way to what was measured. Of a tensor
// that may be unused neither parameters nor state change where it has no gradient; t counts that step, too.
// t counts begin_step() calls. Coefficients are computed in double and rounded once to float; the elements
// are float32.
//
// Every element is computed from its own index alone, with the same operations in a vector's middle and tail,
// without FMA and approximations: any cut into ranges and blocks, on any instruction set, gives the same bits
// (docs/SYNC.md, What is reproducible).
//
// One gradient = one begin_step(), under lars and lamb then measure(), then apply() on pieces that together cover
// each index of the range once, in any order. The state has then taken the gradient in: there is no way back, so a
// gradient that may still be discarded (its sender can die half-way) must not have been begun.
//
// The state can be shared with a checkpoint that is being written, copy-on-write like the parameters
// (state_vector.h): a block of it that an image holds is copied before the next step changes it.
//
// Thread: one at a time, but apply() of pieces that share no block of the state may go on in several at once,
// between measure() or begin_step() and the next. Memory: state_vectors() floats for each parameter; while an
// image lives at most as much again.
#pragma once

#include <cstdint>
#include <span>

#include "common/config/optimizer_section.h"
#include "common/params/blocks.h"
#include "common/params/kernels.h"
#include "common/params/state_vector.h"
#include "common/params/step_factors.h"
#include "common/params/trust_ratio.h"
#include "common/status.h"

namespace paceline {

// An optimizer's state after some step: all that makes the next ones what they would have been. Shared, never
// changed; may go to another thread.
struct OptimizerImage {
  std::int64_t steps = 0;  // gradients begun: Adam's t
  BlockRange first;        // momentum's and LARS' u, Adam's and LAMB's m, the others' h; else empty
  BlockRange second;       // Adam's and LAMB's v, AdaDelta's x; else empty
};

// Floats of state for each parameter.
constexpr int state_vectors(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kSgd:
      return 0;
    case OptimizerKind::kMomentum:
    case OptimizerKind::kAdagrad:
    case OptimizerKind::kRmsprop:
    case OptimizerKind::kLars:
      return 1;
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdadelta:
    case OptimizerKind::kLamb:
      return 2;
  }
  return 2;
}

inline constexpr int kStateVectorsMax = 2;

// Whether it is of this kind of optimizer, for `size` parameters. Errors: kInvalidArgument.
[[nodiscard]] Status check_image(const OptimizerImage& image, OptimizerKind kind, std::int64_t size);

// Where what a step makes is stored. Past the processor's caches: for a vector that outgrows them and is not
// read right away; no line of it is read before it is written.
enum class Stores { kCached, kPastCache };

class OptimizerState {
 public:
  // For `size` parameters, state zero, in one block. size >= 0; the settings have been validated by the
  // configuration.
  OptimizerState(const OptimizerSection& settings, std::int64_t size);
  // The same, the state in blocks of `block_floats` >= 1.
  OptimizerState(const OptimizerSection& settings, std::int64_t size, std::int64_t block_floats,
                 FactorRanges factors = {});

  std::int64_t size() const { return size_; }
  // How many gradients were begun: Adam's t.
  std::int64_t steps() const { return steps_; }

  // Begins the next gradient; its pieces are applied with this learning rate.
  void begin_step(double learning_rate);

  // Of lars and lamb: whether measure() has to come before the pieces.
  bool measures() const { return measures_tensors(settings_.kind); }
  // A pass over whole tensors: the parameters as they are and the begun gradient, both size() floats. LAMB's moments
  // take the gradient in here. What `run` runs reads both and writes apart.
  void measure(const FloatsFrom& parameters, const FloatsFrom& gradient, const RunParts& run = run_in_turn);

  // Applies a piece of the begun gradient to elements [offset, offset + gradient.size()) of the range:
  // out = what `in` becomes. The three have equal lengths; out may be `in` itself (in place), `gradient`
  // itself, or a vector apart from both (copy-on-write), nothing between. `gradient` is not kept. `stores`:
  // how `out` is stored; past the caches only where it is apart from both.
  void apply(std::int64_t offset, std::span<const float> in, std::span<float> out,
             std::span<const float> gradient, Stores stores = Stores::kCached);

  // sgd only, which has no state: any piece by itself, from element `offset` on, with a learning rate of its
  // own, begun or not. `stores`: as above.
  void apply_stateless(std::int64_t offset, std::span<const float> in, std::span<float> out,
                       std::span<const float> gradient, double learning_rate,
                       Stores stores = Stores::kCached) const;
  // The same, and whether a value of the gradient is NaN or infinite: seen in the same pass over memory.
  bool apply_stateless_and_check(std::int64_t offset, std::span<const float> in, std::span<float> out,
                                 std::span<const float> gradient, double learning_rate, Stores stores) const;

  // The whole range at once, in place: begin_step(), measure() where it is needed, and one apply().
  void apply(std::span<float> parameters, std::span<const float> gradient, double learning_rate);

  // Between two steps.
  OptimizerImage image() const { return {steps_, first_.image(), second_.image()}; }
  // Goes on from there. The image's vectors are cut into blocks as this one's are. Errors, nothing changed:
  // kInvalidArgument an image of another kind of optimizer, or of another size.
  [[nodiscard]] Status restore(OptimizerImage image);

 private:
  template <typename Step>
  void each_piece(std::int64_t offset, std::span<const float> in, std::span<float> out,
                  std::span<const float> gradient, const Step& step) const;
  void step_with_state(std::int64_t offset, const kernels::Piece& whole, const StepFactors& factors,
                       double trust_ratio, Stores stores);
  void take_into_moments(Range block, const FloatsFrom& gradient);

  OptimizerSection settings_;
  std::int64_t size_;
  FactorRanges factors_;
  std::int64_t steps_ = 0;
  double learning_rate_ = 0.0;
  TrustRatios ratios_;
  std::int64_t measured_ = 0;  // for which step
  StateVector first_;          // as in the image
  StateVector second_;
};

}  // namespace paceline
