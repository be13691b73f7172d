// Messages into events. What the core makes of them is in authority_actions.cc, the end of a run in
// authority_end.cc.
#include "server/authority/authority.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/config/engine_config.h"
#include "common/timing/phase_totals.h"
#include "common/trace/bound.h"

namespace paceline::server {

namespace {

sync::Engine engine_of(const RunConfig& config, const std::optional<Authority::Resumed>& resumed) {
  if (!resumed) return sync::Engine(engine_config(config));
  auto engine = sync::Engine::resumed(engine_config(config), resumed->engine);
  PACELINE_ASSERT(engine.is_ok(), engine.status().message());
  return std::move(engine).value();
}

}  // namespace

Authority::Authority(const RunConfig& config, RunRecord record, Outbox& outbox, Background& background,
                     const Log& log, Ticks now, std::optional<Resumed> resumed)
    : config_(config),
      record_(std::move(record)),
      outbox_(outbox),
      background_(background),
      log_(log),
      gathering_since_(now),
      resumed_(std::move(resumed)),
      engine_(engine_of(config, resumed_)),
      members_(config, resumed_ ? &resumed_->engine.workers : nullptr),
      formations_(config.cluster.nodes),
      stepped_(config.cluster.cluster().workers()),
      sequence_(resumed_ ? resumed_->decisions : 0),
      decided_(resumed_ ? resumed_->from.version : Version(0)),
      told_(config.cluster.cluster().workers()),
      evaluation_(config.train.eval_every_clocks),
      checkpoints_(config, resumed_ ? resumed_->generation : 1,
                   resumed_ ? std::optional(resumed_->from) : std::nullopt, outbox, background, log,
                   [this](Ticks at) { on_checkpoint_over(at); }),
      speeds_(config) {
  if (config_.run.trace) trace_.emplace(trace::decision_events(config_.run.trace_events));
  const TrainSection& train = config_.train;
  before_ = {iterations_applied(), train.iterations_in(engine_.iterations_skipped()),
             train.iterations_in(engine_.iterations_dropped()),
             train.iterations_in(engine_.iterations_lost()), record_.lost_nodes()};
  revision_ = Revision(engine_.iterations_applied());
  if (resumed_) data_fingerprint_ = resumed_->data_fingerprint;
}

void Authority::node_joined(NodeId node, const Layout& layout, Ticks now, std::uint64_t incarnation,
                            std::uint64_t data) {
  NodeState& state = members_[node];
  if (state == NodeState::kJoined || state == NodeState::kComing) return;  // it said so twice
  const bool had_gone = state == NodeState::kGone;
  members_.process(node).incarnation = incarnation;
  if (layout_.size() == 0) layout_ = layout;
  data_fingerprint_ = data;
  for (std::uint32_t k = 1; k < config_.cluster.shards; ++k) say_admitted(node, ShardId(k));
  if (stage_ == Stage::kTraining) return admit_late(node, now);
  if (had_gone && resumed_ && members_.is_awaited(node)) record_.returned(node, engine_.version());
  state = NodeState::kJoined;
  log_.info("node " + to_string(node) + " joined, " + std::to_string(config_.cluster.threads_per_node) +
            " threads, " + std::to_string(layout.size()) + " parameters");
  begin_if_gathered(now);
}

// It is told who is in: what was said of them before it came has not reached it.
void Authority::shard_joined(ShardId shard) {
  members_.shard(shard).joined = true;
  for (const NodeId node : members_.present()) say_admitted(node, shard);
  log_.info("shard " + to_string(shard) + " joined");
}

void Authority::join_refused(Peer peer, const std::string& why) {
  if (stage_ == Stage::kGathering) members_.refused(peer, why);
}

Status Authority::handle(Peer from, const wire::Message& message, Ticks now) {
  if (concluded()) return Status::ok();
  Status status = from.is_node() ? on_node(from.node(), message, now) : on_shard(from.shard(), message, now);
  begin_if_gathered(now);
  advance_end(now);
  return status;
}

Status Authority::on_node(NodeId from, const wire::Message& message, Ticks now) {
  if (std::holds_alternative<wire::NodeReady>(message.body)) return on_ready(from, now);
  const bool leaves = std::holds_alternative<wire::Leave>(message.body);
  if (members_[from] == NodeState::kComing && !leaves) {
    return failed_precondition(std::string(wire::name_of(message.body)) + " from node " + to_string(from) +
                               ", which takes no part yet; expected its NodeReady");
  }
  if (const auto* peers = std::get_if<wire::Peers>(&message.body)) return on(from, *peers, now);
  if (const auto* step_report = std::get_if<wire::StepReport>(&message.body))
    return on(from, *step_report, now);
  if (const auto* evaluation = std::get_if<wire::EvaluationReport>(&message.body))
    return on(from, *evaluation, now);
  if (const auto* report = std::get_if<wire::NodeReport>(&message.body)) return on(from, *report);
  if (const auto* leave = std::get_if<wire::Leave>(&message.body)) {
    if (leave->lost) who_is_gone(from, *leave, now);
    const bool before_its_time = leave->fault.empty() && !record_.has_report(from);
    lost(Peer::of(from), before_its_time ? "it left before its report" : leave->fault, now);
    return Status::ok();
  }
  return invalid_argument(std::string(wire::name_of(message.body)) + " from node " + to_string(from) +
                          ": not for the authority");
}

Status Authority::on(NodeId from, const wire::StepReport& report, Ticks now) {
  if (report.worker.node != from) {
    return invalid_argument("report from node " + to_string(from) + " in the name of worker " +
                            to_string(report.worker));
  }
  if (!awaits_others(report)) return take(report, now);
  stepped_[config_.cluster.cluster().rank_of(report.worker).value] =
      Stepped{report, now, now + engine_.config().held_notice_after};
  take_steps(now);
  return Status::ok();
}

Status Authority::take(wire::StepReport report, Ticks now) {
  // It counts as if nobody were ever lost.
  if (reduces()) report.computed_revision = std::min(report.computed_revision, engine_.revision());
  // Read first: the next grant may follow at once.
  const Ticks granted = speeds_.granted_at(report.worker, now);
  const Metric trained = trained_;
  const std::int64_t skipped = engine_.iterations_skipped();
  if (!report.skipped) trained_ += report.metric;  // the version that it completes counts it
  // Its gradient is in the sum that every node has, and goes to no shard.
  Status summed = Status::ok();
  if (reduces() && !report.skipped) {
    summed =
        step(sync::GradientArrived{kAuthority, report.worker, report.clock, report.metric.samples, ""}, now);
  }
  const Status taken = !summed.is_ok()
                           ? summed
                           : step(sync::StepReported{report.worker, report.clock, report.metric,
                                                     report.computed_version, report.computed_revision,
                                                     report.skipped, report.fault, report.own_updates},
                                  now);
  if (!taken) {
    trained_ = trained;
    if (taken.code() != StatusCode::kOutOfOrder) return taken;
    answer_again(report.worker, now);
    return taken;
  }
  // Nobody can finish an iteration whose sum one worker has no gradient for.
  if (reduces() && run_status_ == "failed") {
    fail(result_, now);
    return Status::ok();
  }
  if (config_.train.on_nan == OnNan::kSkip && engine_.iterations_skipped() > skipped) say_skipped(report);
  speeds_.took(report, granted, now);
  if (engine_.config().grants_ahead) speeds_.granted(report.worker, now);
  return Status::ok();
}

Status Authority::on(NodeId from, const wire::EvaluationReport& report, Ticks now) {
  const Metric& metric = report.metric;
  const bool sound = metric.samples >= 0 && metric.correct >= 0 && metric.correct <= metric.samples;
  if (report.fault.empty() && !sound) {
    return invalid_argument("evaluation by node " + to_string(from) + ": " + std::to_string(metric.correct) +
                            " correct of " + std::to_string(metric.samples) + " samples");
  }
  const auto reached = evaluation_.reported(from, report.version);
  if (!reached && evaluation_.late(from, report.version)) {
    log_.info("node " + to_string(from) + " has evaluated version " + to_string(report.version) +
              " too late: it was given up");
    return Status::ok();
  }
  if (!reached) {
    return out_of_order("evaluation of version " + to_string(report.version) + " by node " + to_string(from) +
                        ": it was not asked for");
  }
  if (trace_) trace_->evaluated(report.version, now);
  evaluations_.took(now - evaluation_asked_at_);
  to_shards(wire::Release{report.version});
  checkpoints_.evaluated(report.version, report.fault.empty() ? accuracy_of(metric) : std::nullopt);
  if (!report.fault.empty()) {
    not_evaluated(report.version, report.fault);
  } else if (metric.samples == 0) {
    log_.info("version " + to_string(report.version) + " has no measure: the task does not evaluate");
  } else {
    record_.evaluation(report.version, *reached, metric);
    evaluated_ = report.version;
    if (model_.requested()) record_.last_evaluation_is_final();
    const double accuracy = static_cast<double>(metric.correct) / static_cast<double>(metric.samples);
    log_.info("version " + to_string(report.version) + ": test accuracy " + std::to_string(accuracy) +
              ", loss " + std::to_string(metric.loss_sum / static_cast<double>(metric.samples)));
    if (config_.run.target_accuracy && accuracy >= *config_.run.target_accuracy && training()) {
      PACELINE_RETURN_IF_ERROR(step(sync::StopRequested{"target accuracy reached"}, now));
    }
  }
  ask_evaluation(now);
  return Status::ok();
}

Status Authority::on(NodeId from, const wire::NodeReport& report) {
  if (report.node != from) {
    return invalid_argument("report from node " + to_string(from) + " in the name of node " +
                            to_string(report.node));
  }
  const std::string who = "report of node " + to_string(from);
  if (record_.has_report(from)) return out_of_order(who + ": it has reported already");
  const std::uint32_t threads = config_.cluster.threads_per_node;
  if (report.workers.size() != threads) {
    return invalid_argument(who + ": got " + std::to_string(report.workers.size()) + " workers, expected " +
                            std::to_string(threads));
  }
  // In order, so that as many as there are threads are one of each.
  for (std::uint32_t t = 0; t < threads; ++t) {
    const wire::WorkerReport& worker = report.workers[t];
    const WorkerId expected(from, t);
    if (worker.worker != expected) {
      return invalid_argument(who + ": got worker " + to_string(worker.worker) + " at place " +
                              std::to_string(t) + ", expected " + to_string(expected));
    }
    PACELINE_RETURN_IF_ERROR(
        check(worker.phases).with_context("report of worker " + to_string(worker.worker)));
    if (stage_ == Stage::kGathering || engine_.is_live(expected)) {
      return failed_precondition(who + ": worker " + to_string(expected) + " is at clock " +
                                 to_string(engine_.clock_of(expected)) + ", expected it to be finished");
    }
  }
  speeds_.reported(report);
  record_.add(report);
  log_.info("node " + to_string(from) + " is done");
  return Status::ok();
}

// Shards are ours: what one of them says that cannot be is a broken run, not a refused message.
Status Authority::on_shard(ShardId from, const wire::Message& message, Ticks now) {
  const wire::Body& body = message.body;
  if (const auto* arrived = std::get_if<wire::GradientArrived>(&body)) {
    on_arrival(from, *arrived, now);
  } else if (const auto* ready = std::get_if<wire::ShardReady>(&body)) {
    const bool were_ready = members_.shards_are_ready();
    members_.shard(from).ready = true;
    state_here_ = ready->version;
    if (resumed_ && !were_ready && members_.shards_are_ready()) gathering_since_ = now;
    // A shard that was restored may be ready before any node has come here.
    if (ready->layout_hash != (resumed_ ? resumed_->layout_hash : layout_.hash())) {
      fail(failed_precondition("shard " + to_string(from) +
                               " was given another parameter layout by its first node"),
           now);
    }
  } else if (const auto* piece = std::get_if<wire::Parameters>(&body)) {
    const Status status = model_.add(*piece, message.payload);
    if (!status.is_ok()) fail(status, now);
  } else if (const auto* saved = std::get_if<wire::Saved>(&body)) {
    return checkpoints_.on(from, *saved, now);
  } else if (const auto* report = std::get_if<wire::ShardReport>(&body)) {
    if (!std::exchange(members_.shard(from).reported, true)) record_.add(*report);
  } else if (const auto* stuck = std::get_if<wire::NodeLost>(&body)) {
    if (!members_.is_known(stuck->node)) {
      return invalid_argument("shard " + to_string(from) + " has lost node " + to_string(stuck->node) +
                              ": the run has nodes 0 to " + std::to_string(config_.cluster.nodes - 1));
    }
    if (!members_.is_of_a_former_process(*stuck) && !is_done(stuck->node))
      expel(stuck->node, unavailable(stuck->why), now);
  } else if (const auto* asked = std::get_if<wire::StopRun>(&body)) {
    stop("shard " + to_string(from) + ": " + asked->reason, now);
  } else if (const auto* wanted = std::get_if<wire::HandOver>(&body)) {
    return hand_over(wanted->reason, now);
  } else if (const auto* leave = std::get_if<wire::Leave>(&body)) {
    lost(Peer::of(from), leave->fault, now);
  } else if (const auto* error = std::get_if<wire::Error>(&body)) {
    fail({error->code, "shard " + to_string(from) + ": " + error->message}, now);
  } else {
    return invalid_argument(std::string(wire::name_of(body)) + " from shard " + to_string(from) +
                            ": not for the authority");
  }
  return Status::ok();
}

void Authority::on_arrival(ShardId from, const wire::GradientArrived& arrived, Ticks now) {
  const Status status =
      step(sync::GradientArrived{from, arrived.worker, arrived.clock, arrived.samples, arrived.fault}, now);
  if (status.is_ok()) return;
  // Of a worker that has just been lost, or one that pushed what does not fit: no decision will ever take it.
  outbox_.send(Peer::of(from), {wire::DiscardGradient{arrived.worker, arrived.clock}, {}});
  if (!engine_.is_live(arrived.worker) || members_.is_of_a_former_process(arrived.worker, arrived.clock))
    return;
  // Shards drop what they were sent twice, so this iteration can never be complete: its node cannot go on.
  expel(arrived.worker.node, Status(status).with_context("refused"), now);
}

// A node that cannot go on with this run, whether it knows that or not.
void Authority::expel(NodeId node, const Status& why, Ticks now) {
  const NodeState state = members_[node];
  if (state != NodeState::kJoined && state != NodeState::kComing) return;
  to_node(node, wire::Error{why.code(), why.message(), /*fatal=*/true});
  lost(Peer::of(node), why.message(), now);
}

void Authority::begin_if_gathered(Ticks now) {
  if (stage_ != Stage::kGathering) return;
  if (!members_.shards_are_ready()) return;
  if (resumed_) {
    if (members_.all_awaited_came() && may_go_on()) go_on(now);
    return;
  }
  if (members_.enough_have_joined()) begin_fresh(now);
}

// With whoever is there; those beyond cluster.nodes.min come late, all at once.
void Authority::begin_fresh(Ticks now) {
  stage_ = Stage::kTraining;
  const Cluster cluster = config_.cluster.cluster();
  for (std::uint32_t r = 0; r < cluster.workers(); ++r) {
    const WorkerId worker = cluster.worker_at(Rank(r));
    if (members_[worker.node] != NodeState::kJoined) continue;
    members_.process(worker.node).takes_part = true;
    const Status status = step(sync::Joined{worker}, now);
    PACELINE_ASSERT(status.is_ok(), status.message());
  }
}

// However long that takes: node 0's lease is watched.
bool Authority::warms_up() const {
  return config_.train.warm_start_steps > 0 && !resumed_ && members_.enough_have_joined() &&
         members_[NodeId(0)] == NodeState::kJoined && members_.shards_have_joined();
}

void Authority::tick(Ticks now) {
  if (concluded()) return;
  const auto allowed = gathering_timeout();
  if (stage_ == Stage::kGathering && now - gathering_since_ > allowed && !warms_up()) {
    if (resumed_ && may_go_on()) return go_on(now);
    const auto seconds = std::chrono::duration_cast<std::chrono::milliseconds>(allowed).count() / 1000.0;
    std::string text = std::to_string(seconds);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
    fail(deadline_exceeded(members_.missing() + " within " + text + " s" + members_.refusals()), now);
    return;
  }
  if (stage_ == Stage::kTraining) {
    Status status = Status::ok();
    if (config_.run.max_seconds && record_.seconds(now) >= to_seconds(*config_.run.max_seconds)) {
      status = step(sync::StopRequested{"max_seconds"}, now);
      PACELINE_ASSERT(status.is_ok(), status.message());
    }
    status = step(sync::Tick{}, now);
    PACELINE_ASSERT(status.is_ok(), status.message());
    iteration_rate_.read(iterations_applied(), now);
    sample_rate_.read(trained_.samples, now);
    for (const std::string& line : speeds_.look_for_stragglers(now)) log_.warn(line);
    expel_who_is_not_welcomed(now);
    advance_hand_over(now);
  }
  check_forming(now);
  say_who_is_waited_for(now);
  check_stop(now);
  check_silence(now);
  advance_end(now);
}

}  // namespace paceline::server
