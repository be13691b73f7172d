#include "common/params/rates.h"

#include "common/params/schedule.h"
#include "common/params/staleness.h"

namespace paceline {
namespace {

// Of what is applied on top of `version`.
double rate_at(const RunConfig& config, Version version, double scale) {
  return learning_rate(config.train.optimizer, version, planned_versions(config)) * scale;
}

}  // namespace

double rate_scale(const RunConfig& config, std::size_t stage) {
  return config.sync.stages.empty() ? 1.0 : config.sync.stages[stage].lr_scale;
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

}  // namespace paceline
