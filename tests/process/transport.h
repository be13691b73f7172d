// Over which transport the servers of a test's run listen, as its configuration says it before there is a
// port or a path: run_cluster() (local_cluster.h) replaces cluster.endpoints by what the servers have bound.
#pragma once

#include "common/config/run_config.h"

namespace paceline::testing {

// The loopback address, at a port that the system chooses.
inline constexpr const char* kAnyPort = "tcp://127.0.0.1:*";

// Else over ipc.
inline bool over_tcp(const RunConfig& config) {
  return !config.cluster.endpoints.empty() && config.cluster.endpoints.front() == kAnyPort;
}

}  // namespace paceline::testing
