// RunState: what a run has come to, in one vector: the parameters, then each of the optimizer's vectors, all as long
// (common/params/optimizer.h, OptimizerImage). Of version 0 parameters alone will do: the optimizer has no state yet.
// Whoever steps parameters by itself gives it away for a checkpoint, and goes on from it (worker/allreduce/).
#pragma once

#include <vector>

#include "common/clock.h"

namespace paceline {

struct RunState {
  Version version;
  std::vector<float> floats;
};

}  // namespace paceline
