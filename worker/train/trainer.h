// The training thread: grants in, iterations out, until there is nothing further to do.
#pragma once

#include "common/status.h"
#include "worker/train/train_step.h"
#include "worker/train/work_done.h"

namespace paceline {

// Runs the worker's iterations on the calling thread until it is told to finish; returns what its time went
// to. Errors: why the exchange was closed, or the task's fault, with the worker and its clock named.
Result<WorkDone> run_trainer(WorkerContext& training);

// After an error: what the worker has done until then. What was under way counts in no phase, nor in the
// wall; a wait for servers that are gone belongs to neither.
WorkDone unfinished_work(WorkerContext& training);

}  // namespace paceline
