// EngineParts: what the parts of the Engine work on together. Plain; who changes what is theirs to say.
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
