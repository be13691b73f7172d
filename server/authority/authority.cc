// What peers say and what time brings, to the parts that it is for. What the core makes of it is in
// authority_actions.cc, who goes in authority_losses.cc.
#include "server/authority/authority.h"

#include <utility>

#include "server/authority/node_report_check.h"
#include "server/authority/run_shown.h"

namespace paceline::server {

Authority::Authority(const RunConfig& config, RunRecord record, Outbox& outbox, Background& background,
                     const Log& log, Ticks now, std::optional<Resumed> resumed)
    : config_(config),
      record_(std::move(record)),
      outbox_(config.cluster.shards, outbox, resumed ? resumed->decisions : 0,
              resumed ? resumed->from.version : Version(0)),
      log_(log),
      resumed_(std::move(resumed)),
      core_(config_, resumed_ ? &resumed_->engine : nullptr,
            [this](const std::vector<sync::Action>& actions, Ticks at) { return carry_out(actions, at); }),
      engine_(core_.engine()),
      members_(config, resumed_ ? &resumed_->engine.workers : nullptr),
      speeds_(config),
      instructions_(config_, record_, outbox_),
      decision_record_(config_, core_, record_, log),
      step_reports_(config_, core_, state_, speeds_, record_, instructions_, decision_record_),
      progress_(config_, core_, record_, step_reports_),
      checkpoints_(config, resumed_ ? resumed_->generation : 1,
                   resumed_ ? std::optional(resumed_->from) : std::nullopt, outbox, background, log,
                   [this](Ticks at) {
                     if (core_.trace() != nullptr) core_.trace()->saved(at);
                     end_.advance(at);
                   }),
      saves_(core_, state_, record_, outbox_, checkpoints_,
             resumed_ ? resumed_->data_fingerprint : std::nullopt),
      evaluations_(config_, core_, members_, state_, record_, checkpoints_, outbox_, log),
      files_so_far_(config_, record_, speeds_, background, log),
      start_(config_, resumed_ ? RunStart::Of::kResumed : RunStart::Of::kNewRun, core_, members_, state_,
             record_, outbox_, background, log, now,
             [this](NodeId node, const Status& why, Ticks at) { evict(node, why, at); }),
      late_nodes_(config_, core_, members_, record_, instructions_, outbox_, log),
      node_parameters_(config_, members_, outbox_),
      formations_(config_, members_, outbox_, core_.trace(), log),
      steps_(config_, core_, members_, state_, formations_, step_reports_, record_, outbox_, log),
      stop_deadline_(config_, engine_, speeds_),
      reconfiguration_(config_, core_, checkpoints_, saves_, evaluations_, speeds_, log),
      end_({config_, core_, state_, members_, record_, checkpoints_, saves_, evaluations_, node_parameters_,
            step_reports_, speeds_, outbox_, log},
           outbox, background) {}

Status Authority::may_come(NodeId node) const {
  const std::string who = "node " + to_string(node);
  if (state_.is(Stage::kGathering)) return Status::ok();
  if (!training()) {
    const Status& result = state_.result();
    const std::string why = who + ": the run is ending" + (result.is_ok() ? "" : ": " + result.message());
    return end_.is_for_now() ? unavailable(why)
                             : failed_precondition(why);  // who is to ask again finds others
  }
  if (engine_.stopping()) return failed_precondition(who + ": the run is being stopped");
  if (nodes_hold_parameters(config_)) {
    return failed_precondition(who +
                               ": training has begun, and with exchange.kind: allreduce nobody comes later");
  }
  if (reconfiguration_.under_way())
    return unavailable(who + ": the servers are about to go on as a new generation");
  return late_nodes_.may_come(node);
}

// As lost() has it.
bool Authority::may_lose(NodeId node) const {
  return state_.is(Stage::kGathering) ? start_.may_lose(node) : training();
}

void Authority::node_joined(NodeId node, const Layout& layout, Ticks now, std::uint64_t incarnation,
                            std::uint64_t data) {
  NodeState& state = members_[node];
  if (state == NodeState::kJoined || state == NodeState::kJoining) return;  // it said so twice
  const bool had_gone = state == NodeState::kGone;
  members_.process(node).incarnation = incarnation;
  saves_.nodes_have(layout, data);
  // A shard that has heard of no process of a node lets in whichever comes first, which may be one that this does not
  // know; so all are told.
  for (std::uint32_t k = 1; k < config_.cluster.shards; ++k) {
    outbox_.to_shard(ShardId(k), members_.admitted(node));
  }
  if (state_.is(Stage::kTraining)) return late_nodes_.let_in(node, now);
  if (had_gone && resumed_ && members_.is_awaited(node)) record_.churn().returned(node, engine_.version());
  state = NodeState::kJoined;
  log_.info("node " + to_string(node) + " joined, " + std::to_string(config_.cluster.threads_per_node) +
            " threads, " + std::to_string(layout.size()) + " parameters");
  start_.begin_if_gathered(now);
}

// It is told who is in: what was said of them before it came has not reached it.
void Authority::shard_joined(ShardId shard) {
  members_.shard(shard).joined = true;
  for (const NodeId node : members_.present()) outbox_.to_shard(shard, members_.admitted(node));
  log_.info("shard " + to_string(shard) + " joined");
}

// What it may not have heard: which nodes it is connected to; of each worker the instruction; the evaluation that it
// was asked for; how the run ended. It knows what it has heard, and does nothing twice.
void Authority::node_reconnected(NodeId node) {
  const NodeState state = members_[node];
  if (state == NodeState::kGone &&
      (state_.concluded() || state_.reconfigures())) {  // it was told, and is not lost
    return outbox_.to_node(node, state_.as_message());
  }
  if (state != NodeState::kJoined) return;
  formations_.resend(node);
  if (state_.is(Stage::kGathering)) return;
  // Ahead of the grant with which it leaves that version.
  if (nodes_hold_parameters(config_)) node_parameters_.keep_again(node, evaluations_.schedule());
  if (state_.is(Stage::kEnding)) node_parameters_.request_again(node, engine_.version());
  instructions_.repeat(node, engine_);
  if (const auto asked = evaluations_.schedule().asked_of(node)) outbox_.to_node(node, *asked);
}

void Authority::join_refused(Peer peer, const std::string& why) {
  if (state_.is(Stage::kGathering)) members_.refused(peer, why);
}

Status Authority::handle(Peer from, const wire::Message& message, Ticks now) {
  if (state_.concluded()) return Status::ok();
  Status status = from.is_node() ? on_node(from.node(), message, now) : on_shard(from.shard(), message, now);
  start_.begin_if_gathered(now);
  end_.advance(now);
  return status;
}

Status Authority::on_node(NodeId from, const wire::Message& message, Ticks now) {
  if (std::holds_alternative<wire::NodeReady>(message.body)) return on_ready(from, now);
  const bool leaves = std::holds_alternative<wire::Leave>(message.body);
  if (members_[from] == NodeState::kJoining && !leaves) {
    return failed_precondition(std::string(wire::name_of(message.body)) + " from node " + to_string(from) +
                               ", which takes no part yet; expected its NodeReady");
  }
  if (const auto* peers = std::get_if<wire::Peers>(&message.body)) return on(from, *peers, now);
  if (const auto* step_report = std::get_if<wire::StepReport>(&message.body))
    return on(from, *step_report, now);
  if (const auto* evaluation = std::get_if<wire::EvaluationReport>(&message.body))
    return on(from, *evaluation, now);
  if (const auto* report = std::get_if<wire::NodeReport>(&message.body)) {
    PACELINE_RETURN_IF_ERROR(check_report(from, *report, config_, state_, engine_, record_));
    speeds_.reported(*report);
    record_.reports().add(*report);
    log_.info("node " + to_string(from) + " is done");
    return Status::ok();
  }
  if (const auto* leave = std::get_if<wire::Leave>(&message.body)) {
    if (leave->lost) who_is_gone(from, *leave, now);
    if (leave->finished && members_[from] == NodeState::kJoined) record_.churn().finished_early(from);
    const bool before_its_time = leave->fault.empty() && !record_.has_report(from);
    lost(Peer::of(from), before_its_time ? "it left before its report" : leave->fault, now);
    return Status::ok();
  }
  // What the nodes hold is lost with some of them: each of the others says so, and none can go on. Servers that begin
  // with a checkpoint can.
  const auto* error = std::get_if<wire::Error>(&message.body);
  if (error != nullptr && nodes_hold_parameters(config_)) {
    if (training()) end_.fail(unavailable(error->message + ", says node " + to_string(from)), now);
    return Status::ok();
  }
  return invalid_argument(std::string(wire::name_of(message.body)) + " from node " + to_string(from) +
                          ": not for the authority");
}

Status Authority::on_ready(NodeId node, Ticks now) {
  if (members_[node] == NodeState::kJoined) {
    return out_of_order("NodeReady from node " + to_string(node) + ", which takes part already");
  }
  // Where training ends meanwhile, it hears of that when the run is over.
  if (members_[node] != NodeState::kJoining || !training() || engine_.stopping()) return Status::ok();
  const Status begun = late_nodes_.begin(node, now);
  if (!begun.is_ok()) evict(node, begun, now);
  return Status::ok();
}

Status Authority::on(NodeId from, const wire::StepReport& report, Ticks now) {
  if (report.worker.node != from) {
    return invalid_argument("report from node " + to_string(from) + " in the name of worker " +
                            to_string(report.worker));
  }
  if (!steps_.await(report)) {
    PACELINE_ASSIGN_OR_RETURN(const auto taken, step_reports_.take(report, now));
    if (taken == StepReports::Taken::kRunFailed) end_.fail(state_.result(), now);
    return Status::ok();
  }
  steps_.add(report, now);
  if (const Status made = steps_.take(now); !made.is_ok()) end_.fail(made, now);
  return Status::ok();
}

Status Authority::on(NodeId from, const wire::Peers& peers, Ticks now) {
  using News = MeshFormations::News;
  PACELINE_ASSIGN_OR_RETURN(const News news,
                            formations_.on_peers(from, peers, engine_.version(), steps_.go_on(), now));
  const NodeId gone = peers.lost.value_or(from);
  if (news == News::kLost && training() && !record_.has_report(gone)) lost(Peer::of(gone), peers.why, now);
  if (news != News::kEndpoint) return Status::ok();
  if (const Status formed = formations_.form(engine_.version(), now); !formed.is_ok()) end_.fail(formed, now);
  return Status::ok();
}

Status Authority::on(NodeId from, const wire::EvaluationReport& report, Ticks now) {
  PACELINE_ASSIGN_OR_RETURN(const Evaluations::Taken taken, evaluations_.take(from, report, now));
  if (taken == Evaluations::Taken::kTooLate) return Status::ok();
  if (taken == Evaluations::Taken::kOnTarget && training()) {
    PACELINE_RETURN_IF_ERROR(core_.step(sync::StopRequested{"target accuracy reached"}, now));
  }
  evaluations_.ask(now);
  return Status::ok();
}

// Shards are ours: what one of them says that cannot be is a broken run, not a refused message.
Status Authority::on_shard(ShardId from, const wire::Message& message, Ticks now) {
  const wire::Body& body = message.body;
  if (const auto* arrived = std::get_if<wire::GradientArrived>(&body)) {
    on_arrival(from, *arrived, now);
  } else if (const auto* ready = std::get_if<wire::ShardReady>(&body)) {
    start_.ready(from, now);
    node_parameters_.came(ready->version);
    // A shard that was restored may be ready before any node has come here.
    if (ready->layout_hash != (resumed_ ? resumed_->layout_hash : saves_.layout().hash())) {
      end_.fail(failed_precondition("shard " + to_string(from) +
                                    " was given another parameter layout by its first node"),
                now);
    }
  } else if (const auto* piece = std::get_if<wire::Parameters>(&body)) {
    const Status status = end_.add(*piece, message.payload);
    if (!status.is_ok()) end_.fail(status, now);
  } else if (const auto* saved = std::get_if<wire::Saved>(&body)) {
    return checkpoints_.on(from, *saved, now);
  } else if (const auto* report = std::get_if<wire::ShardReport>(&body)) {
    if (!std::exchange(members_.shard(from).reported, true)) record_.reports().add(*report);
  } else if (const auto* gone = std::get_if<wire::NodeLost>(&body)) {
    if (!members_.is_known(gone->node)) {
      return invalid_argument("shard " + to_string(from) + " has lost node " + to_string(gone->node) +
                              ": the run has nodes 0 to " + std::to_string(config_.cluster.nodes - 1));
    }
    const bool is_missed = !gone->out_of_reach || !is_done(gone->node);
    if (!members_.is_of_a_former_process(*gone) && is_missed) evict(gone->node, unavailable(gone->why), now);
  } else if (const auto* asked = std::get_if<wire::StopRun>(&body)) {
    stop("shard " + to_string(from) + ": " + asked->reason, now);
  } else if (const auto* wanted = std::get_if<wire::Reconfigure>(&body)) {
    return reconfigure(wanted->reason, now);
  } else if (const auto* leave = std::get_if<wire::Leave>(&body)) {
    lost(Peer::of(from), leave->fault, now);
  } else if (const auto* error = std::get_if<wire::Error>(&body)) {
    end_.fail({error->code, "shard " + to_string(from) + ": " + error->message}, now);
  } else {
    return invalid_argument(std::string(wire::name_of(body)) + " from shard " + to_string(from) +
                            ": not for the authority");
  }
  return Status::ok();
}

void Authority::on_arrival(ShardId from, const wire::GradientArrived& arrived, Ticks now) {
  const Status status = core_.step(
      sync::GradientArrived{from, arrived.worker, arrived.clock, arrived.samples, arrived.fault}, now);
  if (status.is_ok()) return;
  // Of a worker that has just been lost, or one that pushed what does not fit: no decision will ever take it.
  outbox_.to_shard(from, wire::DiscardGradient{arrived.worker, arrived.clock});
  if (!engine_.is_live(arrived.worker) || members_.is_of_a_former_process(arrived.worker, arrived.clock))
    return;
  // Shards drop what they were sent twice, so this iteration can never be complete: its node cannot go on.
  evict(arrived.worker.node, Status(status).with_context("refused"), now);
}

void Authority::tick(Ticks now) {
  if (state_.concluded()) return;
  if (state_.is(Stage::kGathering)) {
    const Status waits = start_.check(now);
    if (!waits.is_ok()) return end_.fail(waits, now);
    if (!state_.is(Stage::kGathering)) return;
  }
  if (training()) {
    if (config_.run.max_seconds && record_.seconds(now) >= to_seconds(*config_.run.max_seconds)) {
      core_.step_own(sync::StopRequested{"max_seconds"}, now);
    }
    core_.step_own(sync::Tick{}, now);
    progress_.read(now);
    for (const std::string& line : speeds_.check_stragglers(now)) log_.warn(line);
    for (const NodeId node : late_nodes_.overdue(now)) {
      const bool still_comes = members_[node] == NodeState::kJoining && !engine_.stopping();
      if (still_comes) evict(node, late_nodes_.too_late(), now);
    }
    if (training() && reconfiguration_.advance(now)) end_.reconfigure(reconfiguration_.why(), now);
  }
  evict_overdue(now);
  evaluations_.check(now);
  checkpoints_.check(now);
  for (const NodeId node : end_.silent(now)) {
    const bool still_silent = members_[node] == NodeState::kJoined && !record_.has_report(node);
    if (still_silent) lost(Peer::of(node), end_.too_late(), now);
  }
  end_.check(now);
  end_.advance(now);
}

// Losing one may end the training.
void Authority::evict_overdue(Ticks now) {
  if (training()) {
    for (const NodeId node : formations_.overdue(now)) {
      if (training() && members_[node] == NodeState::kJoined) evict(node, formations_.too_late(), now);
    }
  }
  steps_.send_held_notices(now);
  if (!training()) return;
  for (const auto& [worker, why] : stop_deadline_.take_overdue(now)) {
    if (training() && engine_.is_live(worker)) evict(worker.node, why, now);
  }
}

void Authority::discount_pause(const Pause& pause) { speeds_.discount_pause(pause); }

Status Authority::on_heartbeat(NodeId from, const wire::Heartbeat& beat) {
  progress_.on_heartbeat(from, beat.traffic);
  // Its report has said more than its heartbeats go on saying.
  if (beat.workers.empty() || record_.has_report(from)) return Status::ok();
  return speeds_.on_heartbeat(from, beat);
}

void Authority::note_progress(const Traffic& moved, Ticks now) {
  if (!training() || !record_.progress().due(record_.seconds(now))) return;
  Traffic all = moved;
  all += progress_.reduced();
  const Clock slowest = engine_.min_clock();
  record_.progress().note(record_.seconds(now), all, [&](WorkerId worker) -> std::optional<std::int64_t> {
    if (!engine_.is_live(worker)) return std::nullopt;
    return (engine_.clock_of(worker) - slowest).value;
  });
  files_so_far_.write_if_due(now);
}

std::vector<Wait> Authority::waits(const LastSeen& last_seen, WaitsFor which) const {
  return waits_of({config_, state_.stage(), members_, engine_, speeds_, evaluations_, checkpoints_,
                   end_.model(), node_parameters_, formations_, steps_, record_},
                  last_seen, which);
}

RunStatus Authority::status(const LastSeen& last_seen, Ticks now) const {
  return status_of({config_, state_, core_, members_, record_, speeds_, step_reports_, progress_}, last_seen,
                   waits(last_seen, WaitsFor::kOfSomebody), now);
}

}  // namespace paceline::server
