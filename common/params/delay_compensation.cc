#include "common/params/delay_compensation.h"

#include <string>

#include "common/assert.h"
#include "common/params/kernels.h"

namespace paceline {
namespace {

// Keeps an element that never had a gradient from being divided by 0 (Zheng et al., section 5).
constexpr float kEpsilon = 1e-7F;

}  // namespace

DelayCompensation::DelayCompensation(const CompensationSection& settings, std::int64_t size)
    : settings_(settings) {
  if (settings.kind == CompensationKind::kAdaptive) mean_square_.resize(static_cast<std::size_t>(size));
}

void DelayCompensation::apply(std::int64_t offset, std::span<const float> gradient,
                              std::span<const float> now, std::span<const float> backup,
                              std::span<float> out) {
  PACELINE_ASSERT(
      now.size() == gradient.size() && backup.size() == gradient.size() && out.size() == gradient.size(),
      "gradient " + std::to_string(gradient.size()) + ", now " + std::to_string(now.size()) + ", backup " +
          std::to_string(backup.size()) + ", out " + std::to_string(out.size()));
  const kernels::Stale stale{gradient.data(), now.data(), backup.data(), out.data(), std::ssize(gradient)};
  const auto lambda = static_cast<float>(settings_.lambda);
  if (settings_.kind == CompensationKind::kConstant) return kernels::best().compensate(stale, lambda);
  PACELINE_ASSERT(settings_.kind == CompensationKind::kAdaptive, "a gradient that is not to be compensated");
  PACELINE_ASSERT(offset >= 0 && std::ssize(mean_square_) - offset >= std::ssize(gradient),
                  "[" + std::to_string(offset) + ", +" + std::to_string(gradient.size()) + ") of " +
                      std::to_string(mean_square_.size()));
  kernels::best().compensate_adaptive(
      stale, mean_square_.data() + offset,
      {lambda, static_cast<float>(settings_.decay), static_cast<float>(1.0 - settings_.decay), kEpsilon});
}

}  // namespace paceline
