// The curves behind a common warm-up.
#include "common/params/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "common/assert.h"

namespace paceline {
namespace {

double step_factor(const ScheduleSection& schedule, std::int64_t version) {
  PACELINE_ASSERT(schedule.step_versions > 0,
                  "a step schedule needs step_versions, checked by the configuration");
  return std::pow(schedule.step_factor, static_cast<double>(version / schedule.step_versions));
}

double multistep_factor(const ScheduleSection& schedule, std::int64_t version) {
  const auto passed = std::count_if(schedule.step_at.begin(), schedule.step_at.end(),
                                    [&](std::int64_t at) { return version >= at; });
  return std::pow(schedule.step_factor, static_cast<double>(passed));
}

// From the end of the warm-up to final_factor: `left` of what is done, in [0, 1], falls from 1 to 0.
template <typename Left>
double fall(const ScheduleSection& schedule, std::int64_t version, std::int64_t planned_versions,
            const Left& left) {
  const std::int64_t end = schedule.total_versions.value_or(planned_versions);
  if (version >= end) return schedule.final_factor;
  const auto done = static_cast<double>(version - schedule.warmup_versions);
  const auto whole = static_cast<double>(end - schedule.warmup_versions);
  return schedule.final_factor + (1.0 - schedule.final_factor) * left(done / whole);
}

double poly_factor(const ScheduleSection& schedule, std::int64_t version, std::int64_t planned_versions) {
  return fall(schedule, version, planned_versions,
              [&](double done) { return std::pow(1.0 - done, schedule.power); });
}

double cosine_factor(const ScheduleSection& schedule, std::int64_t version, std::int64_t planned_versions) {
  return fall(schedule, version, planned_versions,
              [](double done) { return 0.5 * (1.0 + std::cos(std::numbers::pi * done)); });
}

// Within the warm-up.
double warmup_factor(const ScheduleSection& schedule, std::int64_t version) {
  const auto whole = static_cast<double>(schedule.warmup_versions);
  std::optional<double> begin = schedule.warmup_factor;
  if (!begin && schedule.scale != RateScale::kNone) begin = std::min(1.0, 1.0 / schedule.scale_factor);
  if (!begin) return static_cast<double>(version + 1) / whole;
  if (schedule.warmup == WarmUp::kConstant) return *begin;
  return *begin + (1.0 - *begin) * (static_cast<double>(version) / whole);
}

}  // namespace

double learning_rate(const OptimizerSection& optimizer, Version version, std::int64_t planned_versions) {
  const ScheduleSection& schedule = optimizer.schedule;
  const std::int64_t v = version.value;
  const double lr = optimizer.lr * schedule.scale_factor;
  PACELINE_ASSERT(v >= 0, "version " + std::to_string(v));
  if (v < schedule.warmup_versions) return lr * warmup_factor(schedule, v);
  switch (schedule.kind) {
    case ScheduleKind::kConstant:
      return lr;
    case ScheduleKind::kStep:
      return lr * step_factor(schedule, v);
    case ScheduleKind::kCosine:
      return lr * cosine_factor(schedule, v, planned_versions);
    case ScheduleKind::kExp:
      return lr * std::pow(schedule.gamma, static_cast<double>(v));
    case ScheduleKind::kInv:
      return lr * std::pow(1.0 + schedule.gamma * static_cast<double>(v), -schedule.power);
    case ScheduleKind::kMultistep:
      return lr * multistep_factor(schedule, v);
    case ScheduleKind::kPoly:
      return lr * poly_factor(schedule, v, planned_versions);
    case ScheduleKind::kSigmoid:
      return lr / (1.0 + std::exp(-schedule.gamma * static_cast<double>(v - schedule.step_versions)));
  }
  PACELINE_ASSERT(false, "unknown schedule");
}

}  // namespace paceline
