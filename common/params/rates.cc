#include "common/params/rates.h"

#include "common/config/planned.h"
#include "common/params/schedule.h"
#include "common/params/staleness.h"
#include "common/printed.h"

namespace paceline {
namespace {

// Schedules count mini-batches, of which a version has local_steps of each worker.
Version in_schedule(const RunConfig& config, Version version) {
  return Version(version.value * config.train.local_steps);
}

}  // namespace

double rate_at(const RunConfig& config, Version version, double scale) {
  return learning_rate(config.train.optimizer, in_schedule(config, version), planned_versions(config)) *
         scale;
}

double rate_scale(const RunConfig& config, std::size_t stage) {
  return config.sync.stages.empty() ? 1.0 : config.sync.stages[stage].lr_scale;
}

double shown_rate(const RunConfig& config, Version version, std::size_t stage) {
  if (!config.train.has_inner_optimizer) return rate_at(config, version, rate_scale(config, stage));
  return learning_rate(config.train.inner_optimizer, in_schedule(config, version), planned_versions(config));
}

std::string rate_text(const RunConfig& config) {
  const bool inner = config.train.has_inner_optimizer;
  const OptimizerSection& optimizer = inner ? config.train.inner_optimizer : config.train.optimizer;
  const ScheduleSection& schedule = optimizer.schedule;
  const bool scaled = schedule.scale != RateScale::kNone;
  if (!scaled && schedule.warmup_versions == 0) return "";
  std::string text = "learning rate " + printed("%.6g", optimizer.lr);
  if (scaled) {
    text += " x " + printed("%.6g", schedule.scale_factor) + " = " +
            printed("%.6g", optimizer.lr * schedule.scale_factor) + " for " +
            std::to_string(samples_of_a_step(config, inner)) + " samples a step";
  }
  if (schedule.warmup_versions == 0) return text;
  return text + ", after " + std::to_string(schedule.warmup_versions) + " versions of warm-up from " +
         printed("%.6g", learning_rate(optimizer, Version(0), planned_versions(config)));
}

double applied_rate(const RunConfig& config, const sync::Apply& action, Version decided) {
  // Versioned: all contributors are stamped with the version they are applied to. Eager: the version as it
  // stands.
  const bool stamped = action.apply == ApplyMode::kVersioned && !action.contributors.empty();
  return rate_at(config, stamped ? Version(action.contributors.front().clock.value) : decided,
                 rate_scale(config, action.stage));
}

LocalRate local_rate(const RunConfig& config, const sync::Grant& action) {
  const bool versioned = action.apply == ApplyMode::kVersioned;
  // How stale the gradient will be is not known yet: most likely as the last one was. Nor is whether another
  // policy takes over before it is applied.
  const double rate = rate_at(config, versioned ? Version(action.clock.value) : action.version,
                              rate_scale(config, action.stage)) /
                      staleness_divisor(config.train.optimizer.staleness, action.staleness);
  const bool mean = versioned && config.sync.combine == CombineMode::kMean;
  return {rate, mean ? static_cast<double>(action.samples) / static_cast<double>(action.clock_samples) : 1.0};
}

double inner_rate(const RunConfig& config, std::int64_t iteration) {
  const std::int64_t local_steps = config.train.local_steps;
  const bool given_out_again = config.train.share == Share::kPool;  // what backup workers do in vain
  const std::int64_t of_a_clock =
      given_out_again ? iterations_of_a_clock(config) : config.cluster.cluster().workers();
  const Version round(iteration / local_steps / of_a_clock);
  return learning_rate(config.train.inner_optimizer,
                       Version(in_schedule(config, round).value + iteration % local_steps),
                       planned_versions(config));
}

}  // namespace paceline
