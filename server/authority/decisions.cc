#include "server/authority/decisions.h"


#include "server/authority/node_parameters.h"
#include "server/store/decision.h"

namespace paceline::server {

Decisions::Decisions(const RunConfig& config, std::int64_t sent, Version version, RunOutbox& outbox)
    : config_(config), outbox_(outbox), sent_(sent), decided_(version) {}

wire::ApplyDecision Decisions::of(const sync::Apply& action) const {
  wire::ApplyDecision decision = apply_decision(config_, action, decided_);
  // Each node of an all-reduce applies the sum by itself.
  if (nodes_hold_parameters(config_)) decision.contributions.clear();
  return decision;
}

void Decisions::send(wire::ApplyDecision decision) {
  decided_ = decision.version_after;
  decision.sequence = sent_++;
  outbox_.to_shards(decision);
}

}  // namespace paceline::server
