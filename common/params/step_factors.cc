#include "common/params/step_factors.h"

#include <algorithm>
#include <cmath>

#include "common/assert.h"

namespace paceline {

StepFactors step_factors(const TensorTraits& traits, const OptimizerSection& settings) {
  // Once: a delta has been made with them. What is not trained stays so.
  const double lr = settings.of_deltas && traits.lr_factor != 0.0 ? 1.0 : traits.lr_factor;
  if (traits.role == TensorRole::kBuffer) return {.lr = 0.0, .towards = std::min(1.0, lr)};
  const bool weight = traits.role == TensorRole::kWeight;
  const bool adapts =
      measures_tensors(settings.kind) && lr != 0.0 && (weight || settings.trust == TensorsOf::kAll);
  StepFactors factors{.lr = lr, .may_be_unused = traits.may_be_unused && lr != 0.0, .adapts = adapts};
  if (settings.weight_decay == 0.0) return factors;
  const bool spared = settings.decay == TensorsOf::kWeights && !weight;
  factors.decay = spared ? 0.0 : settings.of_deltas ? 1.0 : traits.decay_factor;
  return factors;
}

bool is_unused(const StepFactors& factors, std::span<const float> gradient) {
  return factors.may_be_unused && std::all_of(gradient.begin(), gradient.end(), [](float value) {
           return value == 0.0F && std::signbit(value);
         });
}

FactorRanges::FactorRanges(const Layout& layout, const OptimizerSection& settings, Range range) {
  bool all_one = true;
  for (const Tensor& tensor : layout.tensors()) {
    const std::int64_t end = std::min(tensor.offset + tensor.size(), range.end) - range.begin;
    if (end <= 0 || tensor.offset >= range.end) continue;
    const StepFactors factors = step_factors(tensor.traits, settings);
    const bool whole = tensor.offset >= range.begin && tensor.offset + tensor.size() <= range.end;
    PACELINE_ASSERT(whole || !factors.adapts, tensor.name + " is cut, and its norm is needed");
    all_one = all_one && factors == StepFactors{};
    const bool apart = factors.adapts || factors.may_be_unused;  // what is found out of it is its own
    if (!apart && !pieces_.empty() && pieces_.back().factors == factors) {
      pieces_.back().end = end;
    } else {
      pieces_.push_back({end, factors});
    }
  }
  if (all_one) pieces_.clear();
}

}  // namespace paceline
