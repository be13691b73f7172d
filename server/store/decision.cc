// Which version's learning rate holds for what.
#include "server/store/decision.h"

#include "common/params/schedule.h"
#include "common/params/staleness.h"

namespace paceline::server {
namespace {

// Of what is applied on top of `version`.
double rate_at(const RunConfig& config, Version version, double scale) {
  return learning_rate(config.train.optimizer, version, planned_versions(config)) * scale;
}

double rate_scale(const RunConfig& config, std::size_t stage) {
  return config.sync.stages.empty() ? 1.0 : config.sync.stages[stage].lr_scale;
}

}  // namespace

wire::ApplyDecision apply_decision(const RunConfig& config, const sync::Apply& action, Version decided) {
  wire::ApplyDecision decision;
  for (const sync::Contributor& c : action.contributors) {
    decision.contributions.push_back({c.worker, c.clock, c.weight, c.staleness});
  }
  for (const sync::SkippedIteration& s : action.skipped) decision.skipped.push_back({s.worker, s.clock, 0});
  decision.combine = action.combine == CombineMode::kMean ? wire::Combine::kMean : wire::Combine::kEach;
  // Versioned: all contributors are stamped with the version they are applied to. Eager: the version as it
  // stands.
  const bool stamped = action.apply == ApplyMode::kVersioned && !action.contributors.empty();
  decision.apply = action.apply;
  decision.rate_scale = rate_scale(config, action.stage);
  decision.learning_rate = rate_at(
      config, stamped ? Version(action.contributors.front().clock.value) : decided, decision.rate_scale);
  decision.version_after = action.version_after;
  decision.revision_after = action.revision_after;
  return decision;
}

wire::Grant grant_of(const RunConfig& config, const sync::Grant& action) {
  wire::Grant grant;
  grant.worker = action.worker;
  grant.clock = action.clock;
  grant.iteration = action.iteration;
  grant.threshold = action.threshold;
  grant.min_clock = action.min_clock;
  grant.min_version = action.min_version;
  grant.version = action.version;
  grant.revision = action.revision;
  const bool versioned = action.apply == ApplyMode::kVersioned;
  grant.apply = action.apply;
  // How stale the gradient will be is not known yet: most likely as the last one was. Nor is whether another
  // policy takes over before it is applied.
  grant.learning_rate = rate_at(config, versioned ? Version(action.clock.value) : action.version,
                                rate_scale(config, action.stage)) /
                        staleness_divisor(config.train.optimizer.staleness, action.staleness);
  const bool mean = versioned && config.sync.combine == CombineMode::kMean;
  grant.local_scale =
      mean ? static_cast<double>(action.samples) / static_cast<double>(action.clock_samples) : 1.0;
  grant.held = action.held;
  grant.position = action.position;
  grant.samples = action.samples;
  return grant;
}

}  // namespace paceline::server
