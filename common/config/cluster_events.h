// simulate.events, read as what happens to each node: in the order of time, and who is not there at the
// start.
#pragma once

#include <vector>

#include "common/config/run_config.h"

namespace paceline {

// By `at`, and where that is the same as they are written.
std::vector<ClusterEvent> in_order(std::vector<ClusterEvent> events);

// By node: the first thing that happens to it is that it joins, so it is not there before.
std::vector<bool> late_nodes(const RunConfig& config);

}  // namespace paceline
