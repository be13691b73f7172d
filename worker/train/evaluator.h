// The evaluator: a node's thread that evaluates the exact versions the authority asks for, in buffers of its
// own and past the process cache, so that no clock, cache or phase of the training threads notices.
#pragma once

#include "common/log/log.h"
#include "common/status.h"
#include "common/task/task.h"
#include "worker/exchange/evaluations.h"

namespace paceline {

// Serves evaluations until they are closed; runs on the calling thread, at low priority: what the training
// threads leave. A task that fails, or a version that is no longer there, is reported, and the run goes on without
// that evaluation. Returns why they were closed.
Status run_evaluator(TaskFactory& tasks, Evaluations& evaluations, const Log& log);

}  // namespace paceline
