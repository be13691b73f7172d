// How many connections a server keeps, and how many files it has open. What looks whether a process may open
// that many (tools/doctor_machine.cc) asks here, too.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/config/run_config.h"
#include "common/ids.h"

namespace paceline::server {

// Of each node two: while it is here, another process of it may ask to be let in. Beyond them and one of each
// shard: for those that connect anew before the old one is found gone. Beyond these strangers are broken
// (common/wire/connections.h).
inline constexpr std::uint32_t kConnectionsToSpare = 32;
inline std::uint32_t connections_max(const ClusterSection& cluster) {
  return 2 * cluster.nodes + cluster.shards + kConnectionsToSpare;
}

// What a server has open that nobody has connected to: standard streams, log, sockets, timers, threads'
// wake-ups.
inline constexpr std::uint32_t kDescriptorsOfServer = 40;
// And what is kept for the files that it writes and reads while it runs: checkpoints, reports, the model.
inline constexpr std::uint32_t kDescriptorsForFiles = 12;

// What a run is known to need of its server `shard`: that, and a connection of each node and, at the
// authority, of each other shard and of a replica. Where memory must be shared it is a file of each node,
// too.
inline std::uint64_t descriptors_needed(const ClusterSection& cluster, ShardId shard) {
  const std::uint64_t of_node = cluster.shared_memory == SharedMemory::kOn ? 2 : 1;
  const std::uint64_t others = shard == ShardId(0) ? cluster.shards - 1 : 0;
  return kDescriptorsOfServer + kDescriptorsForFiles + of_node * cluster.nodes + others + cluster.replicas -
         1;
}

// What it needs for memory that can be shared, nodes that come back, and strangers.
inline std::uint64_t descriptors_wanted(const ClusterSection& cluster) {
  const std::uint64_t shared = cluster.shared_memory == SharedMemory::kOff ? 0 : cluster.nodes;
  return kDescriptorsOfServer + kDescriptorsForFiles + connections_max(cluster) + shared;
}

// The same where the process may open `limit` files: what is kept for files, or has been opened, is nobody's.
inline std::uint32_t connections_max(const ClusterSection& cluster, std::uint64_t limit) {
  const std::uint64_t besides = kDescriptorsOfServer + kDescriptorsForFiles;
  const std::uint64_t left = limit > besides ? limit - besides : 1;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(connections_max(cluster), left));
}

}  // namespace paceline::server
