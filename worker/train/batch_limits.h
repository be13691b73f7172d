// BatchLimits: which mini-batches a run can have. What a grant asks for comes from the network, and a task
// makes room for so many samples; so it is looked at before any task sees it, the built-in one or a user's
// own. And what the task then has computed from is looked at before anybody is told of it.
//
//   batch_size 64, 4 workers, 1000 iterations
//     equal sizes   64 samples of the positions [0, 64,000)
//     by speed      1 to 256, since the others of the clock may have as few; and just as many as were granted
#pragma once

#include <cstdint>

#include "common/batch_part.h"
#include "common/config/run_config.h"
#include "common/metric.h"
#include "common/status.h"

namespace paceline {

struct BatchLimits {
  // Samples of a mini-batch.
  std::int64_t least = 1;
  std::int64_t most = 1;
  std::int64_t multiple_of = 1;
  // No position of the run is beyond it: iterations x batch_size, those that backup workers do in vain too.
  std::int64_t end = 1;
  // The setting under which a gradient weighs as many samples as were granted: sizes follow speed, or stages sum. Null:
  // a task may count as it likes.
  const char* counted_for = nullptr;

  // Errors: kFailedPrecondition with what was granted and what a run of this configuration has.
  Status check_granted(const BatchPart& granted) const;
  // `metric`: the gradient's. Errors: kInvalidArgument.
  Status check_counted(const BatchPart& granted, const Metric& metric) const;
};

BatchLimits batch_limits(const RunConfig& config);

}  // namespace paceline
