// Whether a node's report at the end is one: of all its workers, in order, and of workers that have finished.
#pragma once

#include "common/config/run_config.h"
#include "common/ids.h"
#include "common/status.h"
#include "common/sync/engine.h"
#include "common/wire/messages.h"
#include "server/authority/run_outcome.h"
#include "server/authority/run_record.h"

namespace paceline::server {

// Errors: kInvalidArgument in the name of another node, other workers, phases that cannot be; kOutOfOrder it has
// reported already; kFailedPrecondition one of its workers still trains.
[[nodiscard]] Status check_report(NodeId from, const wire::NodeReport& report, const RunConfig& config,
                                  const RunOutcome& state, const sync::Engine& engine,
                                  const RunRecord& record);

}  // namespace paceline::server
