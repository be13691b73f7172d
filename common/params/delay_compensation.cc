#include "common/params/delay_compensation.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/assert.h"

namespace paceline {
namespace {

// Keeps an element that never had a gradient from being divided by 0 (Zheng et al., section 5).
constexpr float kEpsilon = 1e-7F;

}  // namespace

DelayCompensation::DelayCompensation(const CompensationSection& settings, std::int64_t size,
                                     std::int64_t block_floats, FactorRanges factors)
    : settings_(settings), factors_(std::move(factors)) {
  if (settings.kind == CompensationKind::kAdaptive) mean_square_ = StateVector(size, block_floats);
}

Status DelayCompensation::restore(BlockRange mean_square) {
  if (mean_square.size() != mean_square_.size()) {
    return invalid_argument("delay compensation's mean square: " + std::to_string(mean_square.size()) +
                            " floats, expected " + std::to_string(mean_square_.size()));
  }
  mean_square_.restore(std::move(mean_square));
  return Status::ok();
}

void DelayCompensation::apply(std::int64_t offset, std::span<const float> gradient,
                              std::span<const float> now, std::span<const float> backup,
                              std::span<float> out) {
  PACELINE_ASSERT(
      now.size() == gradient.size() && backup.size() == gradient.size() && out.size() == gradient.size(),
      "gradient " + std::to_string(gradient.size()) + ", now " + std::to_string(now.size()) + ", backup " +
          std::to_string(backup.size()) + ", out " + std::to_string(out.size()));
  const Range whole{offset, offset + std::ssize(gradient)};
  factors_.for_each(whole, [&](Range part, const StepFactors& factors) {
    const std::int64_t at = part.begin - offset;
    const kernels::Stale stale{gradient.data() + at, now.data() + at, backup.data() + at, out.data() + at,
                               part.size()};
    const auto floats = static_cast<std::size_t>(part.size());
    if (factors.towards != 0.0 || is_unused(factors, {stale.gradient, floats})) {
      std::copy_n(stale.gradient, stale.n, stale.out);
    } else {
      compensate(part.begin, stale);
    }
  });
}

void DelayCompensation::compensate(std::int64_t offset, const kernels::Stale& stale) {
  const auto lambda = static_cast<float>(settings_.lambda);
  if (settings_.kind == CompensationKind::kConstant) return kernels::best().compensate(stale, lambda);
  PACELINE_ASSERT(settings_.kind == CompensationKind::kAdaptive, "a gradient that is not to be compensated");
  PACELINE_ASSERT(offset >= 0 && mean_square_.size() - offset >= stale.n,
                  "[" + std::to_string(offset) + ", +" + std::to_string(stale.n) + ") of " +
                      std::to_string(mean_square_.size()));
  for (std::int64_t at = 0; at < stale.n;) {  // block by block of m
    const std::span<float> mean_square = mean_square_.from(offset + at, stale.n - at);
    kernels::best().compensate_adaptive(
        {stale.gradient + at, stale.now + at, stale.backup + at, stale.out + at, std::ssize(mean_square)},
        mean_square.data(),
        {lambda, static_cast<float>(settings_.decay), static_cast<float>(1.0 - settings_.decay), kEpsilon});
    at += std::ssize(mean_square);
  }
}

}  // namespace paceline
