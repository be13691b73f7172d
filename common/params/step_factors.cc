#include "common/params/step_factors.h"

namespace paceline {

StepFactors step_factors(const TensorTraits& traits, const OptimizerSection& settings) {
  if (traits.role == TensorRole::kBuffer) return {.lr = 0.0};
  if (settings.weight_decay == 0.0) return {.lr = traits.lr_factor};
  const bool spared = settings.decay == DecayOf::kWeights && traits.role != TensorRole::kWeight;
  return {.lr = traits.lr_factor, .decay = spared ? 0.0 : traits.decay_factor};
}

FactorRanges::FactorRanges(const Layout& layout, const OptimizerSection& settings, Range range) {
  bool all_one = true;
  for (const Tensor& tensor : layout.tensors()) {
    const std::int64_t end = std::min(tensor.offset + tensor.size(), range.end) - range.begin;
    if (end <= 0 || tensor.offset >= range.end) continue;
    const StepFactors factors = step_factors(tensor.traits, settings);
    all_one = all_one && factors == StepFactors{};
    if (!pieces_.empty() && pieces_.back().factors == factors) {
      pieces_.back().end = end;
    } else {
      pieces_.push_back({end, factors});
    }
  }
  if (all_one) pieces_.clear();
}

}  // namespace paceline
