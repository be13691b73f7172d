// What the core decides, in the words in which shards and nodes are told it: with the learning rate that
// holds for it, the same number for the shards and for the worker's own apply. The authority and the
// simulator say the same.
#pragma once

#include "common/clock.h"
#include "common/config/run_config.h"
#include "common/sync/actions.h"
#include "common/wire/messages.h"

namespace paceline::server {

// `decided`: the version that the decision before led to. Without a sequence number, and nothing is retained.
wire::ApplyDecision apply_decision(const RunConfig& config, const sync::Apply& action, Version decided);

wire::Grant grant_of(const RunConfig& config, const sync::Grant& action);

}  // namespace paceline::server
