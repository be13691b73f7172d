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
      uncut_(layout.size()),
      optimizer_(fresh_state(inner, factors_, layout.size())) {}

void LocalSteps::begin(std::span<const float> parameters) {
  PACELINE_ASSERT(parameters.size() == parameters_.size(),
                  std::to_string(parameters.size()) + " parameters of " + std::to_string(parameters_.size()));
  std::copy(parameters.begin(), parameters.begin() + uncut_, parameters_.begin());
  if (uncut_ < std::ssize(parameters_)) {
    const auto at = static_cast<std::size_t>(uncut_);
    const std::span<float> on = std::span(parameters_).subspan(at);
    subtract(on, on, std::span(at_cut_).subspan(at));
    add_weighted(on, parameters.subspan(at), 1.0F);
    // A running mean begins as it is given: steps are no sum there, and a variance stays above 0.
    factors_.for_each({uncut_, std::ssize(parameters_)}, [&](Range part, const StepFactors& factors) {
      if (factors.towards == 0.0) return;
      std::copy(parameters.begin() + part.begin, parameters.begin() + part.end,
                parameters_.begin() + part.begin);
    });
  }
  uncut_ = std::ssize(parameters_);
}

void LocalSteps::step(std::span<const float> gradient, double learning_rate) {
  optimizer_.apply(parameters_, gradient, learning_rate);
}

void LocalSteps::delta_of(Range part, std::span<const float> begin, std::span<float> delta) const {
  const auto at = static_cast<std::size_t>(part.begin);
  const auto floats = static_cast<std::size_t>(part.size());
  subtract(delta.subspan(at, floats), begin.subspan(at, floats), std::span(parameters_).subspan(at, floats));
  factors_.for_each(part, [&](Range alike, const StepFactors& factors) {
    if (factors.towards == 0.0) return;
    std::copy(parameters_.begin() + alike.begin, parameters_.begin() + alike.end,
              delta.begin() + alike.begin);
  });
}

void LocalSteps::delta(std::span<const float> begin, std::span<float> delta) const {
  delta_of({0, uncut_}, begin, delta);
}

void LocalSteps::cut(Range part, std::span<const float> begin, std::span<float> delta) {
  PACELINE_ASSERT(part.end == uncut_ && part.begin <= part.end,
                  "[" + std::to_string(part.begin) + ", " + std::to_string(part.end) +
                      ") is cut in front of " + std::to_string(uncut_));
  delta_of(part, begin, delta);
  at_cut_.resize(parameters_.size());
  std::copy(parameters_.begin() + part.begin, parameters_.begin() + part.end, at_cut_.begin() + part.begin);
  uncut_ = part.begin;
}

std::vector<float> LocalSteps::carried() const {
  const auto at = static_cast<std::size_t>(uncut_);
  std::vector<float> carried(parameters_.size() - at);
  if (!carried.empty()) subtract(carried, std::span(parameters_).subspan(at), std::span(at_cut_).subspan(at));
  return carried;
}

Status LocalSteps::resume(OptimizerImage state, std::span<const float> carried) {
  if (carried.size() > parameters_.size()) {
    return invalid_argument("a round is to begin with " + std::to_string(carried.size()) +
                            " floats of the last one, expected at most " +
                            std::to_string(parameters_.size()));
  }
  PACELINE_RETURN_IF_ERROR(optimizer_.restore(std::move(state)));
  uncut_ = std::ssize(parameters_) - std::ssize(carried);
  if (carried.empty()) return Status::ok();
  at_cut_.assign(parameters_.size(), 0.0F);
  std::copy(carried.begin(), carried.end(), parameters_.begin() + uncut_);
  return Status::ok();
}

void LocalSteps::forget() {
  optimizer_ = fresh_state(inner_, factors_, std::ssize(parameters_));
  uncut_ = std::ssize(parameters_);
}

}  // namespace paceline
