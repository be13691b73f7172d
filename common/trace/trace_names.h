// Which process and thread of a trace file stands for whom: numbers that a viewer shows beside the names, and
// by which a reader finds them. A thread's number is its own in the whole file.
#pragma once

#include <cstdint>
#include <optional>

#include "common/ids.h"

namespace paceline::trace {

inline constexpr std::int64_t kServerPid = 1;   // of shard 0's process; there are at most 64
inline constexpr std::int64_t kNodePid = 1000;  // of node 0; at most 4096
inline constexpr std::int64_t kNodePidEnd = 1'000'000;
inline constexpr std::int64_t kTidsPerPid = 1000;  // at most 256 training threads

constexpr std::int64_t pid_of(ShardId server) { return kServerPid + server.value; }
constexpr std::int64_t pid_of(NodeId node) { return kNodePid + node.value; }
// Of a server: its decisions, and what it applies. Of a node: its training threads, and its passes as a stage.
constexpr std::int64_t decisions_tid(ShardId server) { return pid_of(server) * kTidsPerPid + 1; }
constexpr std::int64_t shard_tid(ShardId server) { return pid_of(server) * kTidsPerPid + 2; }
constexpr std::int64_t tid_of(WorkerId worker) {
  return pid_of(worker.node) * kTidsPerPid + 1 + worker.thread;
}

constexpr std::int64_t passes_tid(NodeId node) { return pid_of(node) * kTidsPerPid + kTidsPerPid - 1; }
// Of a node of an all-reduce: its buckets.
constexpr std::int64_t buckets_tid(NodeId node) { return pid_of(node) * kTidsPerPid + kTidsPerPid - 2; }

constexpr std::optional<ShardId> server_at(std::int64_t pid) {
  if (pid < kServerPid || pid >= kNodePid) return std::nullopt;
  return ShardId(static_cast<std::uint32_t>(pid - kServerPid));
}
constexpr std::optional<NodeId> node_at(std::int64_t pid) {
  if (pid < kNodePid || pid >= kNodePidEnd) return std::nullopt;
  return NodeId(static_cast<std::uint32_t>(pid - kNodePid));
}
constexpr std::optional<WorkerId> worker_at(std::int64_t pid, std::int64_t tid) {
  const std::optional<NodeId> node = node_at(pid);
  if (!node) return std::nullopt;  // anybody may have written `pid`: it is small from here on
  const std::int64_t thread = tid - pid * kTidsPerPid - 1;
  if (thread < 0 || thread >= kTidsPerPid - 3) return std::nullopt;
  return WorkerId(*node, static_cast<std::uint32_t>(thread));
}

}  // namespace paceline::trace
