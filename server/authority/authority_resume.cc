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

// An all-reduce and a pipeline need every node.
bool Authority::may_go_on() const {
  const bool enough = nodes_talk() ? members_.all_have_joined() : members_.lowest().has_value();
  return enough && members_.shards_are_ready();
}

// Files may be large: that a shard is alive its lease tells, and nodes need not come before it is ready.
std::chrono::nanoseconds Authority::gathering_timeout() const {
  const std::chrono::nanoseconds to_read = kCheckpointLeases * config_.cluster.lease;
  return config_.cluster.start_timeout +
         (resumed_ && !members_.shards_are_ready() ? to_read : to_read.zero());
}

// What new servers may meet with better luck: somebody was lost, or late, or a disk was full; a signal was
// meant.
bool Authority::may_be_resumed_after(const Status& why) const {
  if (!checkpoints_.newest() || state_.is_stopped()) return false;
  const bool does_not_fit =
      why.code() == StatusCode::kFailedPrecondition || why.code() == StatusCode::kInvalidArgument;
  return state_.is(Stage::kGathering)
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
  if (!members_.all_awaited_came() || members_.lowest()) return begin_if_gathered(now);
  fail(unavailable("every node was lost before training went on; the last was node " + to_string(node) +
                   ": " + why),
       now);
}

// Nobody waits for it.
void Authority::leave_out(NodeId node, const std::string& why) {
  members_[node] = NodeState::kGone;
  if (members_.is_awaited(node)) {
    record_.lost(node, why);
    log_.warn("node " + to_string(node) + " lost: " + why);
  }
  outbox_.to_shards(wire::NodeLost{node, why, members_.process(node).incarnation});
}

void Authority::go_on(Ticks now) {
  state_.enter(Stage::kTraining);
  // Not before: an attempt that nobody joins would cost the model of a run that was stopped.
  background_.run([run = config_.run.out] { return forget_results(run); },
                  [this](const Status& removed, Ticks) {
                    if (!removed.is_ok()) log_.warn(removed.message());
                  });
  for (const NodeId node : members_.in(NodeState::kAbsent)) {
    leave_out(node, "it has not joined the resumed run in time");
  }
  // The core begins with the last of those that it waits for, so the others are to be there by then.
  std::vector<NodeId> joined;
  for (const bool awaited : {false, true}) {
    for (const NodeId node : members_.in(NodeState::kJoined)) {
      if (members_.is_awaited(node) == awaited) joined.push_back(node);
    }
  }
  for (std::uint32_t i = 0; i < config_.cluster.nodes; ++i) {
    RunMembers::Process& process = members_.process(NodeId(i));
    process.takes_part = members_.is_awaited(NodeId(i));
    process.took_part = !config_.cluster.nodes_at_start;
  }
  for (const NodeId node : joined) {
    members_.process(node).takes_part = true;
    for (std::uint32_t thread = 0; thread < config_.cluster.threads_per_node; ++thread) {
      const Status status = core_.step(sync::Joined{WorkerId(node, thread)}, now);
      if (!status.is_ok()) expel(node, status, now);
    }
  }
  for (std::uint32_t i = 0; i < config_.cluster.nodes; ++i) {
    if (members_[NodeId(i)] == NodeState::kJoined || !members_.is_awaited(NodeId(i))) continue;
    core_.step_own(sync::Lost{NodeId(i)}, now);
  }
}

}  // namespace paceline::server
