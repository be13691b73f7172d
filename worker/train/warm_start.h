// A warm start: mini-batches that one worker takes alone, with its inner optimizer, before the first round
// (train.warm_start_steps; SparkNet, Moritz et al. 2016, section 2.1: averages of models that have learned
// nothing yet are worth little).
//
// They are none of the run's iterations. Their samples stand after the run's in the shuffle, at the positions
// from total_iterations x batch_size on, so that none of an epoch is taken twice because of them.
#pragma once

#include <functional>
#include <span>

#include "common/config/run_config.h"
#include "common/status.h"
#include "common/task/task.h"

namespace paceline {

// `parameters`: the initial ones, layout().size() floats; becomes what the first round begins with. Nothing
// where the run has no warm start. Makes a trainer of worker 0.0 on the calling thread, and lets go of it.
// Errors: the tasks'; kInvalidArgument where a loss is not finite, naming the step; `go_on`'s, which is asked
// before each step.
[[nodiscard]] Status warm_start(const RunConfig& config, TaskFactory& tasks, std::span<float> parameters,
                                const std::function<Status()>& go_on);

}  // namespace paceline
