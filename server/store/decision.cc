#include "server/store/decision.h"

#include "common/params/rates.h"

namespace paceline::server {

wire::ApplyDecision apply_decision(const RunConfig& config, const sync::Apply& action, Version decided) {
  wire::ApplyDecision decision;
  for (const sync::Contributor& c : action.contributors) {
    decision.contributions.push_back({c.worker, c.clock, c.weight, c.staleness});
  }
  for (const sync::SkippedIteration& s : action.skipped) decision.skipped.push_back({s.worker, s.clock, 0});
  decision.combine = action.combine == CombineMode::kMean ? wire::Combine::kMean : wire::Combine::kEach;
  decision.apply = action.apply;
  decision.rate_scale = rate_scale(config, action.stage);
  decision.learning_rate = applied_rate(config, action, decided);
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
  grant.apply = action.apply;
  const LocalRate rate = local_rate(config, action);
  grant.learning_rate = rate.learning_rate;
  grant.local_scale = rate.scale;
  grant.held = action.held;
  grant.position = action.position;
  grant.samples = action.samples;
  grant.starts_over = action.starts_over;
  return grant;
}

}  // namespace paceline::server
