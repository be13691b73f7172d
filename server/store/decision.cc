// Which version's learning rate holds for what.
#include "server/store/decision.h"

#include "common/params/schedule.h"
#include "common/params/staleness.h"

namespace paceline::server {
namespace {

// Of what is applied on top of `version`.
double rate_at(const RunConfig& config, Version version) {
  return learning_rate(config.train.optimizer, version, planned_versions(config));
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
  const bool stamped = config.sync.apply == ApplyMode::kVersioned && !action.contributors.empty();
  decision.learning_rate =
      rate_at(config, stamped ? Version(action.contributors.front().clock.value) : decided);
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
  const bool versioned = config.sync.apply == ApplyMode::kVersioned;
  // How stale the gradient will be is not known yet: most likely as the last one was.
  grant.learning_rate = rate_at(config, versioned ? Version(action.clock.value) : action.version) /
                        staleness_divisor(config.train.optimizer.staleness, action.staleness);
  const bool mean = config.sync.combine == CombineMode::kMean;
  grant.local_scale =
      mean ? static_cast<double>(action.samples) / static_cast<double>(action.clock_samples) : 1.0;
  grant.held = action.held;
  grant.position = action.position;
  grant.samples = action.samples;
  return grant;
}

}  // namespace paceline::server
