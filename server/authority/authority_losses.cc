// Losses, stops, the reconfiguration: what ends a run, or does not (run_end.h has the end itself).
#include "server/authority/authority.h"
#include "server/authority/reconfigure.h"

namespace paceline::server {

void Authority::lost(Peer peer, const std::string& why, Ticks now) {
  if (state_.concluded()) return;
  if (!peer.is_node()) {
    // After its report a shard is meant to go.
    if (members_.shard(peer.shard()).reported) return;
    end_.fail(unavailable("server " + to_string(peer) + " (" + config_.cluster.endpoints[peer.number] +
                          ") lost: " + why),
              now);
    return;
  }
  const NodeId node = peer.node();
  if (members_[node] == NodeState::kJoining) return late_nodes_.lost(node, why);
  if (members_[node] != NodeState::kJoined) return;
  if (state_.is(Stage::kGathering)) {
    const Status lost_run = start_.lose(node, why, now);
    if (!lost_run.is_ok()) end_.fail(lost_run, now);
    return;
  }
  const bool sends_last = state_.is(Stage::kEnding) &&
                          node_parameters_.is_asked(node, engine_.version());  // after its report, too
  members_[node] = NodeState::kGone;
  outbox_.to_shards(wire::NodeLost{node, why, members_.process(node).incarnation});
  const bool needed = nodes_are_connected(config_) && !record_.has_report(node) && !steps_.go_on();
  const bool end_lacks = (needed || sends_last) && state_.is(Stage::kEnding) &&
                         node_parameters_.on_loss_at_end(node, engine_.version());
  const bool fails = (needed && training()) || end_lacks;
  if (record_.has_report(node)) {
    log_.info(to_string(peer) + " has left");
  } else {
    // Whom the run fails for has not done what it was to do.
    if (fails || !record_.churn().has_finished_early(node)) record_.churn().lost(node, why);
    // What it has sent until its last heartbeat, since no report of it will come.
    if (const Traffic* const sent = progress_.reduced(node)) record_.reports().add_reduced(*sent);
  }
  if (fails) {
    return end_.fail(unavailable(to_string(peer) + " lost: " + why + " (" +
                                 why_needed(config_, node, steps_.has_stepped()) + ")"),
                     now);
  }
  if (!record_.has_report(node)) {  // else the failure has said so
    const bool has_finished = record_.churn().has_finished_early(node);
    log_.write(has_finished ? LogLevel::kInfo : LogLevel::kWarn,
               to_string(peer) + (has_finished ? " has finished early: " : " lost: ") + why);
  }
  evaluations_.gone(node);
  if (!record_.has_report(node)) speeds_.forget(node);
  if (steps_.go_on()) {
    if (const Status goes_on = steps_.go_on_without(node, why, now); !goes_on.is_ok())
      end_.fail(goes_on, now);
  } else if (state_.is(Stage::kTraining)) {
    core_.step_own(sync::Lost{node}, now);
  }
  evaluations_.ask(now);
  end_.advance(now);
}

void Authority::program_ended(NodeId node, const std::string& how, Ticks now) {
  if (!state_.is(Stage::kGathering) || members_[node] != NodeState::kAbsent) return;
  const Status lost_run = start_.never_comes(node, "its program has ended with " + how, now);
  if (!lost_run.is_ok()) end_.fail(lost_run, now);
}

// A node that cannot go on with this run, whether it knows that or not.
void Authority::evict(NodeId node, const Status& why, Ticks now) {
  const NodeState state = members_[node];
  if (state != NodeState::kJoined && state != NodeState::kJoining) return;
  outbox_.to_node(node, wire::Error{why.code(), why.message(), /*fatal=*/true});
  lost(Peer::of(node), why.message(), now);
}

void Authority::who_is_gone(NodeId from, const wire::Leave& leave, Ticks now) {
  const NodeId gone = *leave.lost;
  // Where the others go on, who is gone is found out by their next formation.
  const bool could_be = nodes_are_connected(config_) && !steps_.go_on() && gone != from &&
                        members_.is_known(gone) && !record_.has_report(gone);
  if (could_be) lost(Peer::of(gone), leave.fault + ", says node " + to_string(from), now);
}

Status Authority::reconfigure(const std::string& why, Ticks now) {
  if (reconfiguration_.under_way()) return Status::ok();
  PACELINE_RETURN_IF_ERROR(can_reconfigure(config_));
  if (state_.is(Stage::kGathering)) return unavailable("training has not begun");
  if (!training() || engine_.stopping()) return failed_precondition("the run is ending");
  return reconfiguration_.begin(why, now);
}

void Authority::stop(const std::string& reason, Ticks now) {
  if (state_.concluded() || !state_.is_ok()) return;
  if (state_.is(Stage::kGathering)) {
    state_.set_stopped(
        aborted(reason + " before training began; " + members_.missing() + members_.refusals()));
    end_.fail(state_.result(), now);
    return;
  }
  log_.warn("stopping: " + reason);
  if (!state_.is(Stage::kTraining)) return;  // the training is complete, the end is under way
  state_.set_stopped(aborted(reason));
  core_.step_own(sync::StopRequested{reason}, now);
  end_.advance(now);
}

void Authority::fail(const Status& why, Ticks now) { end_.fail(why, now); }

void Authority::fail_for_missing(const Status& why, Ticks now) { end_.fail_for_missing(why, now); }

}  // namespace paceline::server
