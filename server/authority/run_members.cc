#include "server/authority/run_members.h"

#include <algorithm>
#include <cstddef>

namespace paceline::server {

RunMembers::RunMembers(const RunConfig& config, const std::vector<sync::WorkerState>* resumed)
    : cluster_(config.cluster.cluster()),
      nodes_at_start_(config.cluster.nodes_at_start),
      resumed_(resumed),
      nodes_(config.cluster.nodes, NodeState::kAbsent),
      processes_(config.cluster.nodes),
      begins_(cluster_.workers()),
      shards_(config.cluster.shards) {
  shards_[kAuthority.value].joined = true;
}

std::vector<NodeId> RunMembers::in(NodeState state) const {
  std::vector<NodeId> found;
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i] == state) found.emplace_back(i);
  }
  return found;
}

std::vector<NodeId> RunMembers::present() const {
  std::vector<NodeId> found;
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    const bool in = nodes_[i] == NodeState::kJoined || nodes_[i] == NodeState::kJoining;
    if (in) found.emplace_back(i);
  }
  return found;
}

std::uint32_t RunMembers::joined() const {
  return static_cast<std::uint32_t>(std::count(nodes_.begin(), nodes_.end(), NodeState::kJoined));
}

std::optional<NodeId> RunMembers::lowest() const {
  const auto found = std::find(nodes_.begin(), nodes_.end(), NodeState::kJoined);
  if (found == nodes_.end()) return std::nullopt;
  return NodeId(static_cast<std::uint32_t>(found - nodes_.begin()));
}

bool RunMembers::shards_are_ready() const {
  return std::all_of(shards_.begin(), shards_.end(), [](const ShardState& s) { return s.ready; });
}

bool RunMembers::shards_have_joined() const {
  return std::all_of(shards_.begin(), shards_.end(), [](const ShardState& s) { return s.joined; });
}

bool RunMembers::shards_have_reported() const {
  return std::all_of(shards_.begin(), shards_.end(), [](const ShardState& s) { return s.reported; });
}

// ---- the start

bool RunMembers::enough_have_joined() const {
  return joined() >= nodes_at_start_.value_or(static_cast<std::uint32_t>(nodes_.size()));
}

bool RunMembers::nobody_was_there() const {
  return std::none_of(resumed_->begin(), resumed_->end(),
                      [](const sync::WorkerState& worker) { return worker.there; });
}

bool RunMembers::is_awaited(NodeId node) const {
  if (nobody_was_there()) return !nodes_at_start_;  // of so many most may never have been there
  const auto first = resumed_->begin() + static_cast<std::ptrdiff_t>(rank_of({node, 0}));
  return std::any_of(first, first + static_cast<std::ptrdiff_t>(cluster_.threads_per_node),
                     [](const sync::WorkerState& worker) { return worker.there; });
}

bool RunMembers::all_awaited_came() const {
  const std::vector<NodeId> absent = in(NodeState::kAbsent);
  if (nobody_was_there() && nodes_at_start_) return enough_have_joined() || absent.empty();
  return std::none_of(absent.begin(), absent.end(), [this](NodeId node) { return is_awaited(node); });
}

std::string RunMembers::missing() const {
  std::string absent;
  int count = 0;
  const auto name = [&](const std::string& who) { absent += (count++ == 0 ? "" : ", ") + who; };
  if (nodes_at_start_ && resumed_ == nullptr) {
    const std::uint32_t least = *nodes_at_start_;
    const std::uint32_t more = least - std::min(least, joined());
    if (more > 0) name(std::to_string(more) + (more == 1 ? " more node" : " more nodes"));
    if (more > 1) ++count;
  } else {
    for (const NodeId node : in(NodeState::kAbsent)) name("node " + to_string(node));
  }
  for (std::uint32_t k = 0; k < shards_.size(); ++k) {
    if (!shards_[k].joined) name("shard " + std::to_string(k));
  }
  if (count > 0) return absent + (count == 1 ? " has" : " have") + " not joined";
  for (std::uint32_t k = 0; k < shards_.size(); ++k) {
    if (!shards_[k].ready) name("shard " + std::to_string(k));
  }
  return absent + (count == 1 ? " has" : " have") +
         (resumed_ != nullptr ? " not read the checkpoint" : " not got the initial parameters from node 0");
}

std::string RunMembers::refusals() const {
  constexpr std::size_t kNamed = 3;
  std::string text;
  std::size_t count = 0;
  for (const auto& [peer, why] : refused_) {
    const bool absent =
        peer.is_node() ? nodes_[peer.number] == NodeState::kAbsent : !shards_[peer.number].joined;
    if (absent && ++count <= kNamed) text += "; refused: " + why;
  }
  return text + (count > kNamed ? "; and " + std::to_string(count - kNamed) + " more" : "");
}

// ---- who has come while training went on

bool RunMembers::is_of_a_former_process(WorkerId worker, Clock clock) const {
  return processes_[worker.node.value].has_come && clock < begins_[rank_of(worker)];
}

bool RunMembers::is_of_a_former_process(const wire::NodeLost& lost) const {
  const std::uint64_t now = processes_[lost.node.value].incarnation;
  return lost.incarnation != 0 && now != 0 && lost.incarnation != now;
}

}  // namespace paceline::server
