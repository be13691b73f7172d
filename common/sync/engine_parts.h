// EngineParts: what the Engine, its UpdateSequence and its Grants work on together. Who changes what:
//
//   workers    Engine: who takes part (joined, late, absent, gone), clocks. Grants: held, running, finished, and what
//              each
//              waits for. UpdateSequence: staleness
//   clocks     Engine; Grants takes those out that finish, and adds those of a run that is stopped before its training
//   share      Engine and Grants: who shares, and who no more. Engine: what is given back. Grants: what is taken
//   batches    Engine; Grants asks for parts
//   policy     UpdateSequence: windows, versions. Engine and Grants: clocks, departures
//   halt       Grants; Engine asks once whether all has come to rest
//   started    Engine; Grants where a run is stopped before its training
//   finished   Engine
#pragma once

#include <cstdint>
#include <memory>

#include "common/sync/batch_plan.h"
#include "common/sync/clock_table.h"
#include "common/sync/engine_config.h"
#include "common/sync/halt.h"
#include "common/sync/policy.h"
#include "common/sync/step_output.h"
#include "common/sync/work_share.h"
#include "common/sync/worker_table.h"

namespace paceline::sync {

struct EngineParts {
  // `config` is valid (validate()); anything else is our own bug.
  explicit EngineParts(EngineConfig config);

  const EngineConfig config;
  const std::int64_t per_clock;  // gradients_per_clock()
  std::unique_ptr<Policy> policy;
  WorkerTable workers;
  ClockTable clocks;
  WorkShare share;
  BatchPlan batches;
  Halt halt;
  bool started = false;
  bool finished = false;
  StepOutput step;  // the one being taken
};

}  // namespace paceline::sync
