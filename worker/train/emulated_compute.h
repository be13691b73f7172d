// Computing a gradient at the pace of the emulated cluster.
#pragma once

#include <cstdint>
#include <functional>

#include "common/status.h"
#include "worker/train/train_step.h"

namespace paceline {

// A mini-batch whose gradient is computed: what its emulated duration is drawn for and counted from.
struct Paced {
  Clock clock;  // of the iteration that it is, or would be without local steps
  std::int64_t samples = 0;
  Ticks started;
};

// Calls `compute` in a compute slot, and then sleeps until the iteration that began at `started` has lasted as long
// as its emulated duration; what comes later is an overrun. All of it is COMPUTE_GRADS. Errors: those of `compute`;
// kAborted when waiting for a slot was stopped.
Result<Metric> compute_at_pace(WorkerContext& training, const Paced& paced,
                               const std::function<Result<Metric>()>& compute);

}  // namespace paceline
