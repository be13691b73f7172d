// Strong identifiers: who is who. Explicit, ordered, hashable; nothing converts back by itself.
#pragma once

#include <charconv>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace paceline {

// One worker process (`paceline-worker`); numbered from 0 in the order of the configuration.
struct NodeId {
  std::uint32_t value = 0;
  constexpr NodeId() = default;
  constexpr explicit NodeId(std::uint32_t v) : value(v) {}
  auto operator<=>(const NodeId&) const = default;
};

// One server process's contiguous range of the flat parameter vector. Shard 0's process is the authority.
struct ShardId {
  std::uint32_t value = 0;
  constexpr ShardId() = default;
  constexpr explicit ShardId(std::uint32_t v) : value(v) {}
  auto operator<=>(const ShardId&) const = default;
};

inline constexpr ShardId kAuthority{0};

// Training thread `thread` of node `node`: the thing that has a clock. Ordered by node, then thread.
struct WorkerId {
  NodeId node;
  std::uint32_t thread = 0;
  constexpr WorkerId() = default;
  constexpr WorkerId(NodeId n, std::uint32_t t) : node(n), thread(t) {}
  constexpr WorkerId(std::uint32_t n, std::uint32_t t) : node(n), thread(t) {}
  auto operator<=>(const WorkerId&) const = default;
};

// A worker's place 0..K-1 in a run of K workers: node-major, the order in which gradients of one clock are
// applied.
struct Rank {
  std::uint32_t value = 0;
  constexpr Rank() = default;
  constexpr explicit Rank(std::uint32_t v) : value(v) {}
  auto operator<=>(const Rank&) const = default;
};

inline std::string to_string(NodeId node) { return std::to_string(node.value); }
inline std::string to_string(ShardId shard) { return std::to_string(shard.value); }
// "1.3": thread 3 of node 1, as in every message, log line and report.
inline std::string to_string(WorkerId worker) {
  return std::to_string(worker.node.value) + "." + std::to_string(worker.thread);
}

// What to_string() has written of one; nothing of anything else.
inline std::optional<WorkerId> parse_worker(std::string_view text) {
  const std::size_t dot = text.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const auto reads = [](std::string_view digits, std::uint32_t& number) {
    const char* const end = digits.data() + digits.size();
    const auto [rest, error] = std::from_chars(digits.data(), end, number);
    return error == std::errc() && rest == end;
  };
  std::uint32_t node = 0, thread = 0;
  if (!reads(text.substr(0, dot), node) || !reads(text.substr(dot + 1), thread)) return std::nullopt;
  return WorkerId(node, thread);
}

// The nodes and threads of a run, and the one mapping between workers and ranks.
struct Cluster {
  std::uint32_t nodes = 1;
  std::uint32_t threads_per_node = 1;

  constexpr std::uint32_t workers() const { return nodes * threads_per_node; }
  constexpr bool contains(WorkerId w) const { return w.node.value < nodes && w.thread < threads_per_node; }
  constexpr Rank rank_of(WorkerId w) const { return Rank(w.node.value * threads_per_node + w.thread); }
  constexpr WorkerId worker_at(Rank r) const {
    return WorkerId(r.value / threads_per_node, r.value % threads_per_node);
  }
};

}  // namespace paceline

template <>
struct std::hash<paceline::NodeId> {
  std::size_t operator()(paceline::NodeId id) const noexcept { return std::hash<std::uint32_t>{}(id.value); }
};
template <>
struct std::hash<paceline::ShardId> {
  std::size_t operator()(paceline::ShardId id) const noexcept { return std::hash<std::uint32_t>{}(id.value); }
};
template <>
struct std::hash<paceline::WorkerId> {
  std::size_t operator()(paceline::WorkerId id) const noexcept {
    return std::hash<std::uint64_t>{}((std::uint64_t{id.node.value} << 32) | id.thread);
  }
};
