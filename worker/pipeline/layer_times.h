// How long each layer of a network takes on this machine, forward and backward: what a pipeline is cut by where
// products alone mislead (`paceline schedule --measure`).
#pragma once

#include <cstdint>
#include <vector>

#include "common/config/run_config.h"
#include "common/network/network.h"
#include "common/schedule/pipeline.h"
#include "common/status.h"

namespace paceline {

// Seconds of each layer on `samples` samples of noise, the shortest of several passes: on one core, which is to be
// otherwise idle. A layer that computes nothing takes none. Errors: those of make_stage_backend().
Result<std::vector<schedule::StageTimes>> layer_times(Backend backend, const NetworkSpec& network,
                                                      std::int64_t samples);

}  // namespace paceline
