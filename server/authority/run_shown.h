// What a run says of itself while it goes: its authority's parts as one value (common/live/run_status.h), and who is
// slow. Nothing here decides anything, or remembers anything.
//
// Pure. Thread: one at a time (the server's loop).
#pragma once

#include <vector>

#include "common/config/run_config.h"
#include "common/instant.h"
#include "common/live/run_status.h"
#include "common/log/stall_log.h"
#include "server/authority/run_core.h"
#include "server/authority/run_members.h"
#include "server/authority/run_outcome.h"
#include "server/authority/run_progress.h"
#include "server/authority/run_record.h"
#include "server/authority/step_reports.h"
#include "server/authority/worker_speeds.h"
#include "server/peers/last_seen.h"

namespace paceline::server {

// What a run has that is shown.
struct RunShown {
  const RunConfig& config;
  const RunOutcome& state;
  const RunCore& core;
  const RunMembers& members;
  const RunRecord& record;
  const WorkerSpeeds& speeds;
  const StepReports& reports;
  const RunProgress& progress;
};

// `waits`: of somebody (run_waits.h). O(workers).
RunStatus status_of(const RunShown& run, const LastSeen& last_seen, std::vector<Wait> waits, Ticks now);

}  // namespace paceline::server
