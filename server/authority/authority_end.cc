// Losses, stops and the orderly end: final model, final evaluation, reports, files.
#include <algorithm>
#include <utility>

#include "common/params/shard_ranges.h"
#include "server/authority/authority.h"
#include "server/authority/hand_over.h"
#include "server/seconds_text.h"

namespace paceline::server {
void Authority::lost(Peer peer, const std::string& why, Ticks now) {
  if (state_.concluded()) return;
  if (!peer.is_node()) {
    // After its report a shard is meant to go.
    if (members_.shard(peer.shard()).reported) return;
    fail(unavailable("server " + to_string(peer) + " (" + config_.cluster.endpoints[peer.number] +
                     ") lost: " + why),
         now);
    return;
  }
  const NodeId node = peer.node();
  if (members_[node] == NodeState::kComing) return late_nodes_.lost(node, why);
  if (members_[node] != NodeState::kJoined) return;
  if (state_.is(Stage::kGathering)) {
    const Status lost_run = start_.lost(node, why, now);
    if (!lost_run.is_ok()) fail(lost_run, now);
    return;
  }
  members_[node] = NodeState::kGone;
  if (record_.has_report(node)) {
    log_.info(to_string(peer) + " has left");
  } else {
    record_.lost(node, why);
    // What it has sent until its last heartbeat, since no report of it will come.
    if (const auto sent = reduced_.find(node); sent != reduced_.end()) record_.add_reduced(sent->second);
    log_.warn(to_string(peer) + " lost: " + why);
  }
  outbox_.to_shards(wire::NodeLost{node, why, members_.process(node).incarnation});
  const bool needed = nodes_talk() && !record_.has_report(node) && !steps_.go_on();
  const bool end_lacks = needed && state_.is(Stage::kEnding) && node_parameters_.are_lost_with(node, engine_.version());
  if ((needed && training()) || end_lacks) {
    return fail(unavailable(to_string(peer) + " lost: " + why + " (" + why_needed(config_, node) + ")"), now);
  }
  evaluations_.gone(node);
  if (!record_.has_report(node)) speeds_.forget(node);
  if (steps_.go_on()) {
    steps_.lost(node);
    formations_.lost(node, now);
    take_steps(now);
    if (training()) form(now);
  } else if (state_.is(Stage::kTraining)) {
    core_.step_own(sync::Lost{node}, now);
  }
  evaluations_.ask(now);
  advance_end(now);
}

void Authority::who_is_gone(NodeId from, const wire::Leave& leave, Ticks now) {
  const NodeId gone = *leave.lost;
  // Where the others go on, who is gone is found out by their next formation.
  const bool could_be =
      nodes_talk() && !steps_.go_on() && gone != from && members_.is_known(gone) && !record_.has_report(gone);
  if (could_be) lost(Peer::of(gone), leave.fault + " (so says node " + to_string(from) + ")", now);
}

Status Authority::hand_over(const std::string& why, Ticks now) {
  if (hand_over_.under_way()) return Status::ok();
  PACELINE_RETURN_IF_ERROR(can_hand_over(config_));
  if (state_.is(Stage::kGathering)) return unavailable("training has not begun");
  if (!training() || engine_.stopping()) return failed_precondition("the run is ending");
  PACELINE_RETURN_IF_ERROR(hand_over_.begin(why, now));
  advance_hand_over(now);
  return Status::ok();
}

void Authority::advance_hand_over(Ticks now) {
  if (!training() || !hand_over_.advance(now)) return;
  state_.hand_over(unavailable("the servers go on as a new generation: " + hand_over_.why()));
  record_.training_over(now);
  state_.enter(Stage::kClosing);
  outbox_.to_shards(wire::RunOver{state_.result().code(), state_.result().message(), state_.resumable(),
                                  state_.hands_over()});
  end_nodes();
  advance_end(now);
}

void Authority::stop(const std::string& reason, Ticks now) {
  if (state_.concluded() || !state_.is_ok()) return;
  if (state_.is(Stage::kGathering)) {
    state_.stop(aborted(reason + " before training began; " + members_.missing() + members_.refusals()));
    fail(state_.result(), now);
    return;
  }
  log_.warn("stopping: " + reason);
  if (!state_.is(Stage::kTraining)) return;  // the training is complete, the end is under way
  state_.stop(aborted(reason));
  core_.step_own(sync::StopRequested{reason}, now);
  advance_end(now);
}

void Authority::fail(const Status& reason, Ticks now) {
  if (state_.concluded()) return;
  state_.give_up(reason);
  const Status& why = state_.result();
  state_.set_resumable(may_be_resumed_after(why));
  log_.error("the run failed: " + why.message());
  if (state_.resumable()) say_how_to_go_on();
  if (state_.is(Stage::kTraining)) record_.training_over(now);
  state_.enter(Stage::kClosing);
  outbox_.to_shards(wire::RunOver{why.code(), why.message(), state_.resumable()});
  // At once: the shards go now, and would be missed while a slow disk takes the files.
  end_nodes();
  file();
}

// What new servers may meet with better luck: somebody was lost, or late, or a disk was full; a signal was meant.
bool Authority::may_be_resumed_after(const Status& why) const {
  if (!checkpoints_.newest() || state_.is_stopped()) return false;
  const bool does_not_fit =
      why.code() == StatusCode::kFailedPrecondition || why.code() == StatusCode::kInvalidArgument;
  return state_.is(Stage::kGathering)
             ? !does_not_fit
             : why.code() == StatusCode::kUnavailable || why.code() == StatusCode::kResourceExhausted;
}

void Authority::say_how_to_go_on() const {
  const bool replicas = config_.cluster.replicas > 1;
  log_.error("start all servers again with --resume to go on from the checkpoint of " +
             to_string(*checkpoints_.newest()) +
             (replicas
                  ? " in " + config_.run.out +
                        ": one server of each shard, with cluster.replicas=1, cluster.etcd=[], this run.out "
                        "and its own endpoints"
                  : ""));
}

void Authority::advance_end(Ticks now) {
  if (state_.is(Stage::kEnding)) {
    // Before the final state is retained, for which there may be no room otherwise.
    if (!evaluations_.idle() && !members_.lowest()) evaluations_.abandon();
    if (reduces() && !parameters_are_here()) {  // a node is sending them
      if (members_.lowest()) return;
      return fail(state_.result().is_ok() ? unavailable("no node is left that has the run's parameters")
                                          : state_.result(),
                  now);
    }
    if (!model_.requested()) {
      if (!evaluations_.idle()) return;  // at most two retained versions, and one of each number
      if (saves_last_state() && checkpoints_.under_way()) return;
      const bool saves = saves_last_state() && checkpoints_.due_at_stop(engine_.version(), now);
      saves_.send_last({.retain = true, .save = saves}, now);
      model_.request(saves_.layout(),
                     shard_ranges(saves_.layout(), config_.train.optimizer, config_.cluster.shards),
                     engine_.version(), network_);
      evaluations_.reached_final(
          {record_.seconds(ending_since_), engine_.threshold(), core_.iterations_applied(), step_reports_.trained()});
      evaluations_.ask(now);
    }
    if (!model_is_written() || !evaluations_.idle() || !reports_are_in()) return;
    if (!last_state_is_saved(now)) return;
    state_.enter(Stage::kClosing);
    outbox_.to_shards(wire::RunOver{state_.result().code(), state_.result().message()});
  }
  if (!state_.is(Stage::kClosing)) return;
  if (members_.shards_have_reported()) file();
}

// Once: a disk that is full costs this checkpoint and nothing else.
bool Authority::last_state_is_saved(Ticks now) {
  if (!saves_last_state() && !saves_behind_model()) return true;
  if (checkpoints_.under_way()) return false;
  if (saves_behind_model() && !std::exchange(saved_behind_model_, true) &&
      checkpoints_.due_at_stop(engine_.version(), now)) {
    saves_.send_last({.save = true}, now);
  }
  return !checkpoints_.under_way();
}

bool Authority::model_is_written() {
  if (model_.is_ready()) {
    model_.write(
        background_, config_.run.out, config_.train.model, engine_.revision(),
        [this](const Status& written, Ticks now) { on_model_written(written, now); }, needed_here());
  }
  return model_.is_written();
}

void Authority::on_model_written(const Status& written, Ticks now) {
  if (!written.is_ok()) {
    if (state_.concluded()) log_.error(written.message());  // the run has failed for another reason
    return fail(written, now);
  }
  log_.info("the final model, version " + to_string(engine_.version()) + ", is written");
  advance_end(now);
}

bool Authority::reports_are_in() const {
  const std::vector<NodeId> here = members_.in(NodeState::kJoined);
  return std::all_of(here.begin(), here.end(), [this](NodeId node) { return record_.has_report(node); });
}

void Authority::file() {
  state_.enter(Stage::kFiling);
  if (checkpoints_.enabled()) record_.checkpoints(checkpoints_.written(), checkpoints_.failed());
  record_.stragglers(speeds_.stragglers());
  const std::string invalid = record_.invalid_because();
  if (state_.is_ok() && !invalid.empty()) {
    state_.invalidate(failed_precondition(invalid));
    log_.error("the run is invalid: " + invalid);
  }
  core_.trace() != nullptr && !state_.hands_over() ? write_trace() : write_results();  // of its generation nothing is kept then
}

void Authority::write_results() {
  filed_as_ = state_.status();
  background_.run(
      record_.writer(engine_, state_.status(), state_.result().message()),
      [this](const Status& written, Ticks) { on_filed(written); }, needed_here());
}

// Of a file without which the run is none.
Background::Here Authority::needed_here() {
  return [this](const Status& here, const Status& counts) {
    if (!counts.is_ok() || here.is_ok()) return;
    log_.warn("what the run is for is not whole on this replica's disk: " + here.message());
    if (missing_.is_ok()) missing_ = here;
  };
}

void Authority::fail_for_missing(const Status& why, Ticks now) {
  if (!state_.concluded()) return fail(why, now);
  log_.error("the run failed: " + why.message());
  state_.fail_unless_ended(why);
  if (!over()) return;  // on_filed() sees to it
  state_.enter(Stage::kFiling);
  write_results();
}

void Authority::on_filed(const Status& written) {
  if (written.is_ok() && filed_as_ != state_.status()) return write_results();
  state_.enter(Stage::kOver);
  if (!written.is_ok()) {
    log_.error(written.message());
    state_.note(written);
  }
  // Only those are left to be told that were on their way in as the last one was lost.
  if (ends_for_now() && checkpoints_.newest()) state_.set_resumable(true);
  end_nodes();
  log_.info("the run is over: " + state_.status());
  if (state_.nobody_left() && checkpoints_.newest()) say_how_to_go_on();
}

void Authority::end_nodes() {
  for (const NodeId node : members_.present()) {
    outbox_.to_node(node, state_.said());
    members_[node] = NodeState::kGone;
  }
}

// A node whose heartbeats come but whose report does not would hold the end of the run open for ever.
void Authority::check_silence(Ticks now) {
  const auto lease = config_.cluster.lease;
  evaluations_.check(now);
  checkpoints_.check(now);
  if (!state_.is(Stage::kEnding) || now - ending_since_ <= kReportLeases * lease) return;
  for (const NodeId node : members_.in(NodeState::kJoined)) {
    if (members_[node] != NodeState::kJoined || record_.has_report(node)) continue;
    lost(Peer::of(node), "no report within " + whole_seconds_text(kReportLeases * lease) + " of the end of training",
         now);
  }
  if (!state_.is(Stage::kEnding) || !reduces() || parameters_are_here()) return;
  if (now - ending_since_ <= Checkpoints::kLeases * lease) return;
  fail(deadline_exceeded("the parameters of version " + to_string(engine_.version()) +
                         " have not come from the nodes within " + whole_seconds_text(Checkpoints::kLeases * lease) +
                         " of the end of training"),
       now);
}

}  // namespace paceline::server
