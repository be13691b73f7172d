// Nodes that come while training goes on: late (cluster.nodes: {min: 2, max: 8}), or again, as another
// process of a node that was lost. A node takes part from the moment at which all servers have welcomed it,
// so nobody waits for one that never gets that far.
//
//   Join            let in, where training can take it. Its Welcome says that the run is under way. The other
//                   shards are sent NodeAdmitted, as they are for every node, at the start too
//   NodeReady       its threads join in the core: granted from the min clock on, by a new plan (docs/SYNC.md)
//   Lost before     nothing has begun, nobody was told
//
// What the process before had sent may still be on its way, from the shards that had it whole or that had
// lost it themselves: it is told by its stamp, or by its incarnation, and dropped.
#include <utility>

#include "server/authority/authority.h"

namespace paceline::server {

Status Authority::may_come(NodeId node) const {
  const std::string who = "node " + to_string(node);
  if (state_.is(Stage::kGathering)) return Status::ok();
  if (!state_.is(Stage::kTraining)) {
    const std::string why = who + ": the run is ending" + (state_.result().is_ok() ? "" : ": " + state_.result().message());
    return ends_for_now() ? unavailable(why) : failed_precondition(why);  // who is to ask again finds others
  }
  if (engine_.stopping()) return failed_precondition(who + ": the run is being stopped");
  if (reduces()) {
    return failed_precondition(who +
                               ": training has begun, and with exchange.kind: allreduce nobody comes later");
  }
  if (handing_over_) return unavailable(who + ": the servers are about to go on as a new generation");
  if (record_.has_report(node)) return failed_precondition(who + ": it has done its share");
  if (!sync::workers_come_and_go(engine_.config())) {
    return failed_precondition(
        who +
        ": training has begun, and with sync.backup_workers, train.batch_balance or local_balance "
        "nobody comes later");
  }
  const bool compensates = config_.train.optimizer.delay_compensation.kind != CompensationKind::kNone;
  if (compensates && members_.process(node).takes_part) {
    return failed_precondition(who +
                               ": servers still have what its process before computed with, and with "
                               "train.optimizer.delay_compensation no node comes back");
  }
  return Status::ok();
}

// As lost() has it.
bool Authority::may_lose(NodeId node) const {
  if (!state_.is(Stage::kGathering)) return training();
  if (!resumed_) return config_.cluster.nodes_at_start && node != NodeId(0);
  for (std::uint32_t i = 0; i < config_.cluster.nodes; ++i) {
    const NodeId other(i);
    const bool comes = members_[other] == NodeState::kAbsent && members_.is_awaited(other);
    if (other != node && (comes || members_[other] == NodeState::kJoined)) return true;
  }
  return false;
}

// A shard that has heard of no process of a node lets in whichever comes first, which may be one that the
// authority does not know; so it is told of all.
void Authority::say_admitted(NodeId node, ShardId shard) {
  outbox_.to_shard(shard, wire::NodeAdmitted{node, members_.process(node).incarnation});
}

void Authority::admit_late(NodeId node, Ticks now) {
  members_[node] = NodeState::kComing;
  members_.process(node).let_in = now;
  log_.info("node " + to_string(node) + " is let in; it takes part when all servers have welcomed it");
}

// It asks the other servers for no longer itself.
void Authority::expel_who_is_not_welcomed(Ticks now) {
  for (const NodeId node : members_.in(NodeState::kComing)) {
    if (members_[node] != NodeState::kComing || engine_.stopping()) continue;
    if (now - members_.process(node).let_in <= config_.cluster.start_timeout) continue;
    const std::string why = "it has not said within cluster.start_timeout that all servers welcomed it";
    expel(node, deadline_exceeded(why), now);
  }
}

Status Authority::on_ready(NodeId node, Ticks now) {
  if (members_[node] == NodeState::kJoined) {
    return out_of_order("NodeReady from node " + to_string(node) + ", which takes part already");
  }
  // Where training ends meanwhile, it hears of that when the run is over.
  if (members_[node] != NodeState::kComing || !training() || engine_.stopping()) return Status::ok();
  members_[node] = NodeState::kJoined;
  members_.process(node).has_come = true;
  const Version version = engine_.version();
  const bool returns = members_.process(node).takes_part || members_.process(node).took_part;
  for (std::uint32_t thread = 0; thread < config_.cluster.threads_per_node; ++thread) {
    const WorkerId worker(node, thread);
    instructions_.forget(worker);
    const Status status = core_.step(sync::Joined{worker}, now);
    if (!status.is_ok()) {
      expel(node, status, now);
      return Status::ok();
    }
    members_.begins(worker, engine_.clock_of(worker));
  }
  members_.process(node).takes_part = true;
  returns ? record_.returned(node, version) : record_.came_late(node, version);
  log_.info("node " + to_string(node) + (returns ? " is back" : " has come") +
            " and takes part, at version " + to_string(version));
  return Status::ok();
}

void Authority::lost_before_ready(NodeId node, const std::string& why) {
  members_[node] = NodeState::kGone;
  log_.warn("node " + to_string(node) + " lost before it took part: " + why);
  outbox_.to_shards(wire::NodeLost{node, why, members_.process(node).incarnation});
}

// Node 0's initial values may be half here.
void Authority::lost_before_start(NodeId node, const std::string& why, Ticks now) {
  const std::string what = "node " + to_string(node) + " was lost before training began: " + why;
  if (!config_.cluster.nodes_at_start || node == NodeId(0)) return fail(unavailable(what), now);
  members_[node] = NodeState::kGone;
  log_.warn(what);
  outbox_.to_shards(wire::NodeLost{node, why, members_.process(node).incarnation});
}

}  // namespace paceline::server
