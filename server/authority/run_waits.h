// Why a run stands still, as its authority sees it: from the engine's state and its own, who waits for whom, and
// what that one has not done. One line for each cause:
//
//   15 workers wait for version 118: worker 3.0 (node 3, last seen 0.4 s ago, clock 117) has not reported
//   worker 1.2 waits for version 118: worker 3.0 (node 3, last seen 0.1 s ago, clock 117) has reported, but
//     its gradient is not whole on shard 2 (last seen 0.2 s ago)
//   the end waits for the report of node 3 (last seen 0.4 s ago)
//
// Nothing here decides anything, or remembers anything: a StallLog (common/log/stall_log.h) knows which waits
// have become long. What only a shard can see, a decision that it has not applied or a pull that it has not
// answered, is in that shard's log (server/service/shard_waits.h).
//
// Pure. Thread: one at a time (the server's loop).
#pragma once

#include <vector>

#include "common/log/stall_log.h"
#include "common/sync/engine.h"
#include "server/authority/checkpoints.h"
#include "server/authority/evaluations.h"
#include "server/authority/final_model.h"
#include "server/authority/mesh_formations.h"
#include "server/authority/node_parameters.h"
#include "server/authority/reduced_steps.h"
#include "server/authority/run_members.h"
#include "server/authority/run_record.h"
#include "server/authority/run_stage.h"
#include "server/authority/worker_speeds.h"
#include "server/peers/last_seen.h"

namespace paceline::server {

// What a run has that waits, or is waited for.
struct RunWaiting {
  const RunConfig& config;
  RunStage stage;
  const RunMembers& members;
  const sync::Engine& engine;
  const WorkerSpeeds& speeds;
  const Evaluations& evaluations;
  const Checkpoints& checkpoints;
  const FinalModel& model;
  const NodeParameters& parameters;
  const MeshFormations& formations;
  const ReducedSteps& steps;
  const RunRecord& record;
};

// kOfSomebody leaves out what no worker is held for: a clock that all are computing is no news.
enum class WaitsFor { kAnything, kOfSomebody };
std::vector<Wait> waits_of(const RunWaiting& run, const LastSeen& last_seen, WaitsFor which);

}  // namespace paceline::server
