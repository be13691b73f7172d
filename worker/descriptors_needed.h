// How many files a node has open. Its own need is asked at its start (main.cc), and before that by
// tools/doctor_machine.cc.
#pragma once

#include <cstdint>

#include "common/config/run_config.h"

namespace paceline {

// Standard streams, log, threads' wake-ups, data, and what is kept for the files that it writes.
inline constexpr std::uint32_t kDescriptorsOfNode = 40;
// Of each server: a connection and ZeroMQ's sockets around it.
inline constexpr std::uint32_t kDescriptorsOfLink = 4;

// What a run is known to need of each node. Where memory must be shared it is a file of each server, too.
inline std::uint64_t descriptors_needed_by_node(const ClusterSection& cluster) {
  const std::uint64_t of_server = kDescriptorsOfLink + (cluster.shared_memory == SharedMemory::kOn ? 1 : 0);
  return kDescriptorsOfNode + of_server * cluster.shards;
}
// Nodes that are connected have a socket for each other one, and one more while they meet.
inline std::uint64_t descriptors_needed_by_node(const RunConfig& config) {
  const std::uint64_t of_nodes = nodes_are_connected(config) ? 2 * std::uint64_t{config.cluster.nodes} : 0;
  return descriptors_needed_by_node(config.cluster) + of_nodes;
}

}  // namespace paceline
