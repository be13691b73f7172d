// Computing a gradient at the pace of the emulated cluster, or at the machine's own where nothing is
// emulated.
#pragma once

#include <span>

#include "common/status.h"
#include "worker/train/train_step.h"

namespace paceline {

// Computes the gradient of the mini-batch that `grant` is for at the thread cache's parameters. Emulated: in
// a compute slot, and then sleeps until the iteration that `started` has lasted as long as its emulated
// duration; what comes later is an overrun. All of it is COMPUTE_GRADS. Errors: the task's; kAborted when
// waiting for a slot was stopped.
//
// `final_from` hears what is final while the rest is computed, unless a cluster is emulated: there real
// layers take no emulated time, and nothing is to leave before the emulated end.
Result<Metric> compute_at_pace(Training& training, const step::Grant& grant, Ticks started,
                               std::span<float> gradient, const FinalFrom& final_from);

}  // namespace paceline
