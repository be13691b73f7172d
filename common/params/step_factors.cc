#include "common/params/step_factors.h"

namespace paceline {

StepFactors step_factors(const TensorTraits& traits, const OptimizerSection& settings) {
  // Once: a delta has been made with them. What is not trained stays so.
  const double lr = settings.of_deltas && traits.lr_factor != 0.0 ? 1.0 : traits.lr_factor;
  if (traits.role == TensorRole::kBuffer) return {.lr = 0.0, .towards = std::min(1.0, lr)};
  if (settings.weight_decay == 0.0) return {.lr = lr};
  const bool spared = settings.decay == DecayOf::kWeights && traits.role != TensorRole::kWeight;
  return {.lr = lr, .decay = spared ? 0.0 : settings.of_deltas ? 1.0 : traits.decay_factor};
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
