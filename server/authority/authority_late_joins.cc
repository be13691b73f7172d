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
  if (stage_ == Stage::kGathering) return Status::ok();
  if (stage_ != Stage::kTraining) {
    const std::string why = who + ": the run is ending" + (result_.is_ok() ? "" : ": " + result_.message());
    return ends_for_now() ? unavailable(why) : failed_precondition(why);  // who is to ask again finds others
  }
  if (engine_.stopping()) return failed_precondition(who + ": the run is being stopped");
  if (handing_over_) return unavailable(who + ": the servers are about to go on as a new generation");
  if (record_.has_report(node)) return failed_precondition(who + ": it has done its share");
  if (!sync::workers_come_and_go(engine_.config())) {
    return failed_precondition(
        who +
        ": training has begun, and with sync.backup_workers, train.batch_balance or local_balance "
        "nobody comes later");
  }
  const bool compensates = config_.train.optimizer.delay_compensation.kind != CompensationKind::kNone;
  if (compensates && comings_[node.value].takes_part) {
    return failed_precondition(who +
                               ": servers still have what its process before computed with, and with "
                               "train.optimizer.delay_compensation no node comes back");
  }
  return Status::ok();
}

// As lost() has it.
bool Authority::may_lose(NodeId node) const {
  if (stage_ != Stage::kGathering) return training();
  if (!resumed_) return config_.cluster.nodes_at_start && node != NodeId(0);
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    const bool comes = nodes_[i] == NodeState::kAbsent && is_awaited(NodeId(i));
    if (NodeId(i) != node && (comes || nodes_[i] == NodeState::kJoined)) return true;
  }
  return false;
}

// A shard that has heard of no process of a node lets in whichever comes first, which may be one that the
// authority does not know; so it is told of all.
void Authority::say_admitted(NodeId node, ShardId shard) {
  outbox_.send(Peer::of(shard), {wire::NodeAdmitted{node, comings_[node.value].incarnation}, {}});
}

void Authority::admit_late(NodeId node, Ticks now) {
  nodes_[node.value] = NodeState::kComing;
  comings_[node.value].let_in = now;
  log_.info("node " + to_string(node) + " is let in; it takes part when all servers have welcomed it");
}

// It asks the other servers for no longer itself.
void Authority::expel_who_is_not_welcomed(Ticks now) {
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i] != NodeState::kComing || engine_.stopping()) continue;
    if (now - comings_[i].let_in <= config_.cluster.start_timeout) continue;
    const std::string why = "it has not said within cluster.start_timeout that all servers welcomed it";
    expel(NodeId(i), deadline_exceeded(why), now);
  }
}

Status Authority::on_ready(NodeId node, Ticks now) {
  if (nodes_[node.value] == NodeState::kJoined) {
    return out_of_order("NodeReady from node " + to_string(node) + ", which takes part already");
  }
  // Where training ends meanwhile, it hears of that when the run is over.
  if (nodes_[node.value] != NodeState::kComing || !training() || engine_.stopping()) return Status::ok();
  nodes_[node.value] = NodeState::kJoined;
  comings_[node.value].has_come = true;
  const Version version = engine_.version();
  const bool returns = comings_[node.value].takes_part || comings_[node.value].took_part;
  for (std::uint32_t thread = 0; thread < config_.cluster.threads_per_node; ++thread) {
    const WorkerId worker(node, thread);
    told_[config_.cluster.cluster().rank_of(worker).value] = {};  // that was its process before
    const Status status = step(sync::Joined{worker}, now);
    if (!status.is_ok()) {
      expel(node, status, now);
      return Status::ok();
    }
    begins_[config_.cluster.cluster().rank_of(worker).value] = engine_.clock_of(worker);
  }
  note_taking_part(node);
  returns ? record_.returned(node, version) : record_.came_late(node, version);
  log_.info("node " + to_string(node) + (returns ? " is back" : " has come") +
            " and takes part, at version " + to_string(version));
  return Status::ok();
}

void Authority::note_taking_part(NodeId node) { comings_[node.value].takes_part = true; }

void Authority::lost_before_ready(NodeId node, const std::string& why) {
  nodes_[node.value] = NodeState::kGone;
  log_.warn("node " + to_string(node) + " lost before it took part: " + why);
  to_shards(wire::NodeLost{node, why, comings_[node.value].incarnation});
}

// Node 0's initial values may be half here.
void Authority::lost_before_start(NodeId node, const std::string& why, Ticks now) {
  const std::string what = "node " + to_string(node) + " was lost before training began: " + why;
  if (!config_.cluster.nodes_at_start || node == NodeId(0)) return fail(unavailable(what), now);
  nodes_[node.value] = NodeState::kGone;
  log_.warn(what);
  to_shards(wire::NodeLost{node, why, comings_[node.value].incarnation});
}

bool Authority::is_of_a_former_process(WorkerId worker, Clock clock) const {
  return comings_[worker.node.value].has_come &&
         clock < begins_[config_.cluster.cluster().rank_of(worker).value];
}

bool Authority::is_of_a_former_process(const wire::NodeLost& lost) const {
  const std::uint64_t now = comings_[lost.node.value].incarnation;
  return lost.incarnation != 0 && now != 0 && lost.incarnation != now;
}

}  // namespace paceline::server
