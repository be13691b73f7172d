#include "worker/train/local_steps.h"

#include <algorithm>

#include "common/assert.h"
#include "common/params/vector_ops.h"

namespace paceline {
namespace {

OptimizerState fresh_state(const OptimizerSection& inner, const FactorRanges& factors, std::int64_t floats) {
  return {inner, floats, std::max<std::int64_t>(1, floats), factors};
}

}  // namespace

LocalSteps::LocalSteps(const OptimizerSection& inner, const Layout& layout)
    : inner_(inner),
      factors_(layout, inner, {0, layout.size()}),
      parameters_(static_cast<std::size_t>(layout.size())),
      optimizer_(fresh_state(inner, factors_, layout.size())) {}

void LocalSteps::begin(std::span<const float> parameters) {
  PACELINE_ASSERT(parameters.size() == parameters_.size(),
                  std::to_string(parameters.size()) + " parameters of " + std::to_string(parameters_.size()));
  std::copy(parameters.begin(), parameters.end(), parameters_.begin());
}

void LocalSteps::step(std::span<const float> gradient, double learning_rate) {
  optimizer_.apply(parameters_, gradient, learning_rate);
}

void LocalSteps::delta(std::span<const float> begin, std::span<float> delta) const {
  subtract(delta, begin, parameters_);
  factors_.for_each({0, std::ssize(parameters_)}, [&](Range part, const StepFactors& factors) {
    if (factors.towards == 0.0) return;
    std::copy(parameters_.begin() + part.begin, parameters_.begin() + part.end, delta.begin() + part.begin);
  });
}

void LocalSteps::forget() { optimizer_ = fresh_state(inner_, factors_, std::ssize(parameters_)); }

}  // namespace paceline
