// One layer of the reference back end (worker/model/reference.h): plain loops in double over a mini-batch.
// One for each kind, in layers/<kind>/reference.cc. Values are samples x size, row-major.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/network/network.h"
#include "worker/model/batch.h"
#include "worker/model/norm_group.h"

namespace paceline {

using Values = std::vector<double>;
enum class Mode { kTraining, kEvaluation };

// What a pass over the layers shares.
struct ReferencePass {
  Mode mode;
  std::int64_t samples;
  const Batch& batch;  // of these samples: the keys of their dropout in training
  std::uint64_t seed;
  std::span<const double> parameters;  // the whole vector
  std::span<double> gradient;          // the whole vector; layers add theirs. Empty in a forward pass
  void (*keep)(std::span<double>);     // rounds values to what they are kept as between layers
  std::int64_t* hits = nullptr;        // where a loss adds those that it counts; null: nowhere
  NormGroup* norm_group =
      nullptr;  // whose values a batch_norm goes by in training; null: this mini-batch's alone
};

// Thread: one. A layer may keep from forward() what backward() of the same mini-batch needs.
class ReferenceLayer {
 public:
  virtual ~ReferenceLayer() = default;

  // Fills `out`, which has its size. `in`: of each input, in order.
  virtual void forward(const ReferencePass& pass, std::span<const Values* const> in, Values& out) = 0;

  // From d(loss)/d(out) to d(loss)/d(in), which are zero and have their sizes; and adds d(loss)/d(parameters)
  // to pass.gradient, sample after sample; buffers (common/params/layout.h) get what was measured. `in` and `out` are
  // as forward() left them.
  virtual void backward(const ReferencePass& pass, std::span<const Values* const> in, const Values& out,
                        const Values& out_difference, std::span<Values> in_differences) = 0;
};

// The layer at `index` of its network, which outlives what is made.
std::unique_ptr<ReferenceLayer> make_reference_layer(const Layer& layer, std::size_t index);

// To the products of a layer that may have a bias, that of their channel. They are kept before, and again after.
void add_bias(const ReferencePass& pass, const Layer& layer, Values& out);
// Adds d(loss)/d(bias).
void add_bias_gradient(const ReferencePass& pass, const Layer& layer, const Values& out_difference);

}  // namespace paceline
