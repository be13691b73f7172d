// How many connections a server keeps; beyond it strangers are broken (common/wire/connections.h). What looks
// whether a process may open that many files (tools/doctor_machine.cc) asks here, too.
#pragma once

#include <cstdint>

#include "common/config/run_config.h"

namespace paceline::server {

// Of each node two: while it is here, another process of it may ask to be let in. Beyond them and one of each
// shard: for those that connect anew before the old one is found gone.
inline constexpr std::uint32_t kConnectionsToSpare = 32;

inline std::uint32_t connections_max(const ClusterSection& cluster) {
  return 2 * cluster.nodes + cluster.shards + kConnectionsToSpare;
}

}  // namespace paceline::server
