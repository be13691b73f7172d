// The begin of a resumed run. It goes on with those who were there at the save: with all of them as soon as
// all have joined, or with those who have when cluster.start_timeout is over, which begins when the last
// shard has read its checkpoint. Who had been lost before takes part again if it joins before that.
//
// Worked example: nodes 0 to 2, of which 2 was lost before the save. 0 and 1 join -> training goes on,
// without
// 2. Or: 0 and 2 join, and nothing else for start_timeout -> node 1 is lost, training goes on with 0 and 2.
#include <algorithm>
#include <vector>

#include "server/authority/authority.h"
#include "server/authority/results.h"

namespace paceline::server {

bool Authority::is_awaited(NodeId node) const {
  const std::vector<sync::WorkerState>& workers = resumed_->engine.workers;
  const auto there = [](const sync::WorkerState& worker) { return worker.there; };
  if (std::none_of(workers.begin(), workers.end(), there)) return true;  // nobody was left: anybody will do
  const Cluster cluster = config_.cluster.cluster();
  const auto first = workers.begin() + static_cast<std::ptrdiff_t>(cluster.rank_of({node, 0}).value);
  return std::any_of(first, first + static_cast<std::ptrdiff_t>(cluster.threads_per_node), there);
}

// Or are known not to come any more.
bool Authority::all_awaited_came() const {
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i] == NodeState::kAbsent && is_awaited(NodeId(i))) return false;
  }
  return true;
}

// An all-reduce and a pipeline need every node.
bool Authority::may_go_on() const {
  const bool enough = nodes_talk() ? joined() == nodes_.size() : lowest_node().has_value();
  return enough && shards_are_ready();
}

bool Authority::shards_are_ready() const {
  return std::all_of(shards_.begin(), shards_.end(), [](const ShardState& s) { return s.ready; });
}

// Files may be large: that a shard is alive its lease tells, and nodes need not come before it is ready.
std::chrono::nanoseconds Authority::gathering_timeout() const {
  const std::chrono::nanoseconds to_read = kCheckpointLeases * config_.cluster.lease;
  return config_.cluster.start_timeout + (resumed_ && !shards_are_ready() ? to_read : to_read.zero());
}

// What new servers may meet with better luck: somebody was lost, or late, or a disk was full; a signal was
// meant.
bool Authority::may_be_resumed_after(const Status& why) const {
  if (!checkpoints_.newest() || run_status_ == "stopped") return false;
  const bool does_not_fit =
      why.code() == StatusCode::kFailedPrecondition || why.code() == StatusCode::kInvalidArgument;
  return stage_ == Stage::kGathering
             ? !does_not_fit
             : why.code() == StatusCode::kUnavailable || why.code() == StatusCode::kResourceExhausted;
}

void Authority::lost_before_resume(NodeId node, const std::string& why, Ticks now) {
  leave_out(node, why);
  if (nodes_talk()) {
    return fail(unavailable("node " + to_string(node) + " lost before training went on: " + why + " (" +
                            why_needed(node) + ")"),
                now);
  }
  if (!all_awaited_came() || lowest_node()) return begin_if_gathered(now);
  fail(unavailable("every node was lost before training went on; the last was node " + to_string(node) +
                   ": " + why),
       now);
}

// Nobody waits for it.
void Authority::leave_out(NodeId node, const std::string& why) {
  nodes_[node.value] = NodeState::kGone;
  if (is_awaited(node)) {
    record_.lost(node, why);
    log_.warn("node " + to_string(node) + " lost: " + why);
  }
  to_shards(wire::NodeLost{node, why, comings_[node.value].incarnation});
}

void Authority::go_on(Ticks now) {
  stage_ = Stage::kTraining;
  // Not before: an attempt that nobody joins would cost the model of a run that was stopped.
  background_.run([run = config_.run.out] { return forget_results(run); },
                  [this](const Status& removed, Ticks) {
                    if (!removed.is_ok()) log_.warn(removed.message());
                  });
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i] == NodeState::kAbsent) leave_out(NodeId(i), "it has not joined the resumed run in time");
  }
  // The core begins with the last of those that it waits for, so the others are to be there by then.
  std::vector<NodeId> joined;
  for (const bool awaited : {false, true}) {
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      const bool is_one = nodes_[i] == NodeState::kJoined && is_awaited(NodeId(i)) == awaited;
      if (is_one) joined.emplace_back(i);
    }
  }
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    comings_[i].takes_part = is_awaited(NodeId(i));
    comings_[i].took_part = !config_.cluster.nodes_at_start;
  }
  for (const NodeId node : joined) {
    note_taking_part(node);
    for (std::uint32_t thread = 0; thread < config_.cluster.threads_per_node; ++thread) {
      const Status status = step(sync::Joined{WorkerId(node, thread)}, now);
      if (!status.is_ok()) expel(node, status, now);
    }
  }
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i] == NodeState::kJoined || !is_awaited(NodeId(i))) continue;
    const Status status = step(sync::Lost{NodeId(i)}, now);
    PACELINE_ASSERT(status.is_ok(), status.message());
  }
}

}  // namespace paceline::server
