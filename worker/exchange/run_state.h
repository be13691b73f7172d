// RunState: what a run has come to, in one vector: the parameters, then each of the optimizer's vectors, all as long
// (common/params/optimizer.h, OptimizerImage). Of version 0 parameters alone will do: the optimizer has no state yet.
// Whoever steps parameters by itself gives it away for a checkpoint, and goes on from it (worker/allreduce/).
#pragma once

#include <optional>
#include <vector>

#include "common/clock.h"
#include "common/params/partition.h"

namespace paceline {

struct RunState {
  Version version;
  std::vector<float> floats;
  // Which of all floats these are, one after the other, none in two vectors; nullopt: all.
  std::optional<std::vector<Range>> parts = {};
};

}  // namespace paceline
