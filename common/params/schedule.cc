// The three curves behind a common warm-up.
#include "common/params/schedule.h"

#include <cmath>
#include <numbers>

#include "common/assert.h"
#include "common/sync/backup.h"

namespace paceline {
namespace {

double step_factor(const ScheduleSection& schedule, std::int64_t version) {
  PACELINE_ASSERT(schedule.step_versions > 0,
                  "a step schedule needs step_versions, checked by the configuration");
  return std::pow(schedule.step_factor, static_cast<double>(version / schedule.step_versions));
}

double cosine_factor(const ScheduleSection& schedule, std::int64_t version, std::int64_t planned_versions) {
  const std::int64_t end = schedule.total_versions.value_or(planned_versions);
  if (version >= end) return schedule.final_factor;
  const auto done = static_cast<double>(version - schedule.warmup_versions);
  const auto whole = static_cast<double>(end - schedule.warmup_versions);
  const double fall = 0.5 * (1.0 + std::cos(std::numbers::pi * done / whole));
  return schedule.final_factor + (1.0 - schedule.final_factor) * fall;
}

}  // namespace

std::int64_t iterations_of_a_clock(const RunConfig& config) {
  std::int64_t per_clock = config.cluster.cluster().workers();
  if (config.sync.policy == PolicyKind::kBackup) {
    per_clock = sync::first_n(per_clock, config.sync.backup_workers);
  }
  PACELINE_ASSERT(per_clock > 0, "more backup workers than workers, checked by the configuration");
  return per_clock;
}

std::int64_t planned_versions(const RunConfig& config) {
  const std::int64_t per_clock = iterations_of_a_clock(config);
  return (config.train.total_iterations + per_clock - 1) / per_clock;
}

double learning_rate(const OptimizerSection& optimizer, Version version, std::int64_t planned_versions) {
  const ScheduleSection& schedule = optimizer.schedule;
  const std::int64_t v = version.value;
  PACELINE_ASSERT(v >= 0, "version " + std::to_string(v));
  if (v < schedule.warmup_versions) {
    return optimizer.lr * (static_cast<double>(v + 1) / static_cast<double>(schedule.warmup_versions));
  }
  switch (schedule.kind) {
    case ScheduleKind::kConstant:
      return optimizer.lr;
    case ScheduleKind::kStep:
      return optimizer.lr * step_factor(schedule, v);
    case ScheduleKind::kCosine:
      return optimizer.lr * cosine_factor(schedule, v, planned_versions);
  }
  PACELINE_ASSERT(false, "unknown schedule");
}

}  // namespace paceline
