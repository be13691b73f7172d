#include "server/authority/run_end.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/network/network.h"
#include "common/params/shard_ranges.h"
#include "server/run/seconds_text.h"

namespace paceline::server {

using NodeState = RunMembers::NodeState;

namespace {

// As model.bin names it. A training loop's own is no network of the configuration's, which names one all the same.
std::string model_name(const RunConfig& config, const Layout& layout) {
  const auto network = build_network(config);
  if (!network.is_ok()) return config.train.model;  // a file that says it is gone by now
  const auto shapes = [](const Layout& of) {  // by name: of stages with chunks tensors lie in another order
    std::map<std::string, std::vector<std::int64_t>> found;
    for (const Tensor& tensor : of.tensors()) found[tensor.name] = tensor.shape;
    return found;
  };
  return shapes(network->layout) == shapes(layout) ? config.train.model : "custom model";
}

}  // namespace

RunEnd::RunEnd(const Run& run, Outbox& network, Background& background)
    : run_(run),
      network_(network),
      background_(background),
      files_(run.config, run.core, run.state, run.record, background, run.log,
             [this](const Status& written) { on_filed(written); }) {}

void RunEnd::begin(sync::EndReason why, Ticks now) {
  run_.state.enter(RunStage::kEnding);
  since_ = now;
  if (why == sync::EndReason::kNobodyLeft) run_.state.lose_everybody();
  const bool ends_empty = run_.state.nobody_left() && !run_.state.is_stopped();
  if (ends_empty && run_.record.churn().last_has_finished()) {
    // With an all-reduce the parameters have gone with them, which advance() says.
    if (!nodes_hold_parameters(run_.config)) run_.log.info("every node has finished early, and the run ends");
  } else if (ends_empty) {
    run_.state.set_failed(unavailable("every node was lost before its share was done"));
    run_.log.error(run_.state.result().message());
  }
  if (nodes_hold_parameters(run_.config) && !run_.state.nobody_left()) {
    run_.parameters.ask_for_last(run_.core.engine().version());
  }
}

void RunEnd::advance(Ticks now) {
  if (run_.state.is(RunStage::kEnding)) {
    // Before the final state is retained, for which there may be no room otherwise.
    if (!run_.evaluations.idle() && !run_.members.lowest()) run_.evaluations.abandon();
    if (lacks_parameters()) {
      const Status lost = run_.parameters.lost(run_.record);
      if (lost.is_ok()) return;  // a node is sending them
      const Status& result = run_.state.result();
      return fail(result.is_ok() ? lost : result, now);
    }
    if (!model_.requested()) {
      if (!run_.evaluations.idle()) return;  // at most two retained versions, and one of each number
      if (saves_last_state() && run_.checkpoints.under_way()) return;
      request_model(now);
    }
    if (!model_is_written() || !run_.evaluations.idle() || !reports_are_in()) return;
    if (!last_state_is_saved(now)) return;
    run_.state.enter(RunStage::kClosing);
    const Status& result = run_.state.result();
    run_.outbox.to_shards(wire::RunOver{result.code(), result.message()});
  }
  if (!run_.state.is(RunStage::kClosing)) return;
  if (run_.members.shards_have_reported()) file();
}

void RunEnd::fail(const Status& reason, Ticks now) {
  if (run_.state.concluded()) return;
  run_.state.give_up(reason);
  const Status& why = run_.state.result();
  run_.state.set_resumable(may_be_resumed_after(why));
  run_.log.error("the run failed: " + why.message());
  if (run_.state.resumable()) log_how_to_resume();
  if (run_.state.training()) run_.record.training_over(now);
  run_.state.enter(RunStage::kClosing);
  run_.outbox.to_shards(run_.state.as_message());
  // At once: the shards go now, and would be missed while a slow disk takes the files.
  end_nodes();
  file();
}

void RunEnd::fail_for_missing(const Status& why, Ticks now) {
  if (!run_.state.concluded()) return fail(why, now);
  run_.log.error("the run failed: " + why.message());
  run_.state.set_failed_unless_ended(why);
  if (!run_.state.is(RunStage::kOver)) return;  // its results are written once more
  run_.state.enter(RunStage::kFiling);
  files_.write_results();
}

void RunEnd::reconfigure(const std::string& why, Ticks now) {
  run_.state.reconfigure(unavailable("the servers go on as a new generation: " + why));
  run_.record.training_over(now);
  run_.state.enter(RunStage::kClosing);
  wire::RunOver over = run_.state.as_message();
  over.reconfigures = true;
  run_.outbox.to_shards(over);
  end_nodes();
  advance(now);
}

// Its last state is to be in a checkpoint: at once, beside the model, where the run has not come to its own
// end; else after the model, for which there is to be room first.
bool RunEnd::saves_last_state() const {
  return run_.checkpoints.enabled() && (run_.state.is_stopped() || run_.state.nobody_left());
}

bool RunEnd::saves_after_model() const {
  return run_.checkpoints.enabled() && run_.state.is_ok() && !run_.state.nobody_left();
}

bool RunEnd::is_for_now() const {
  return run_.state.resumable() ||
         (run_.state.nobody_left() && run_.state.has_failed() && run_.checkpoints.enabled());
}

// The nodes of an all-reduce give them to the shard in the end.
bool RunEnd::lacks_parameters() const {
  return nodes_hold_parameters(run_.config) && !run_.parameters.are_here(run_.core.engine().version());
}

// What new servers may meet with better luck: somebody was lost, or late, or a disk was full; a signal was meant.
bool RunEnd::may_be_resumed_after(const Status& why) const {
  if (!run_.checkpoints.newest() || run_.state.is_stopped()) return false;
  const bool does_not_fit =
      why.code() == StatusCode::kFailedPrecondition || why.code() == StatusCode::kInvalidArgument;
  return run_.state.is(RunStage::kGathering)
             ? !does_not_fit
             : why.code() == StatusCode::kUnavailable || why.code() == StatusCode::kResourceExhausted;
}

void RunEnd::log_how_to_resume() const {
  const bool replicas = run_.config.cluster.replicas > 1;
  run_.log.error(
      "start all servers again with --resume to go on from the checkpoint of " +
      to_string(*run_.checkpoints.newest()) +
      (replicas ? " in " + run_.config.run.out +
                      ": one server of each shard, with cluster.replicas=1, cluster.etcd=[], this run.out "
                      "and its own endpoints"
                : ""));
}

void RunEnd::request_model(Ticks now) {
  const Version version = run_.core.engine().version();
  const bool saves = saves_last_state() && run_.checkpoints.due_at_stop(version, now);
  run_.saves.send_last({.retain = true, .save = saves}, now);
  const Layout& layout = run_.saves.layout();
  model_.request(layout, shard_ranges(layout, run_.config.train.optimizer, run_.config.cluster.shards),
                 version, network_);
  run_.evaluations.reached_final({run_.record.seconds(since_), run_.core.engine().threshold(),
                                  run_.core.iterations_applied(), run_.reports.trained()});
  run_.evaluations.ask(now);
}

bool RunEnd::model_is_written() {
  if (model_.is_ready()) {
    model_.write(
        background_, run_.config.run.out, model_name(run_.config, run_.saves.layout()),
        run_.core.engine().revision(),
        [this](const Status& written, Ticks now) { on_model_written(written, now); }, files_.needed_here());
  }
  return model_.is_written();
}

void RunEnd::on_model_written(const Status& written, Ticks now) {
  if (!written.is_ok()) {
    if (run_.state.concluded()) run_.log.error(written.message());  // the run has failed for another reason
    return fail(written, now);
  }
  run_.log.info("the final model, version " + to_string(run_.core.engine().version()) + ", is written");
  advance(now);
}

// Once: a disk that is full costs this checkpoint and nothing else.
bool RunEnd::last_state_is_saved(Ticks now) {
  if (!saves_last_state() && !saves_after_model()) return true;
  if (run_.checkpoints.under_way()) return false;
  if (saves_after_model() && !std::exchange(saved_after_model_, true) &&
      run_.checkpoints.due_at_stop(run_.core.engine().version(), now)) {
    run_.saves.send_last({.save = true}, now);
  }
  return !run_.checkpoints.under_way();
}

bool RunEnd::reports_are_in() const {
  const std::vector<NodeId> here = run_.members.in(NodeState::kJoined);
  return std::all_of(here.begin(), here.end(), [this](NodeId node) { return run_.record.has_report(node); });
}

// A node whose heartbeats come but whose report does not would hold the end of the run open for ever.
std::vector<NodeId> RunEnd::silent(Ticks now) const {
  std::vector<NodeId> nodes;
  if (!run_.state.is(RunStage::kEnding)) return nodes;
  if (now - since_ <= kReportLeases * run_.config.cluster.lease) return nodes;
  for (const NodeId node : run_.members.in(NodeState::kJoined)) {
    if (!run_.record.has_report(node)) nodes.push_back(node);
  }
  return nodes;
}

std::string RunEnd::too_late() const {
  return "no report within " + whole_seconds_text(kReportLeases * run_.config.cluster.lease) +
         " of the end of training";
}

void RunEnd::check(Ticks now) {
  const auto allowed = kParametersLeases * run_.config.cluster.lease;
  if (!run_.state.is(RunStage::kEnding) || !lacks_parameters() || now - since_ <= allowed) return;
  std::string nodes;
  for (const NodeId node : run_.parameters.owing(run_.record)) {
    nodes += (nodes.empty() ? "node " : ", node ") + to_string(node);
  }
  fail(deadline_exceeded("the parameters of version " + to_string(run_.core.engine().version()) +
                         " have not come from " + nodes + " within " + whole_seconds_text(allowed) +
                         " of the end of training"),
       now);
}

// Tells the nodes that are still here how the run went, once.
void RunEnd::end_nodes() {
  for (const NodeId node : run_.members.present()) {
    run_.outbox.to_node(node, run_.state.as_message());
    run_.members[node] = NodeState::kGone;
  }
}

void RunEnd::file() {
  run_.state.enter(RunStage::kFiling);
  if (run_.checkpoints.enabled()) {
    run_.record.checkpoints(run_.checkpoints.written(), run_.checkpoints.failed());
  }
  run_.record.stragglers(run_.speeds.stragglers());
  const std::string invalid = run_.record.reports().invalid_because();
  if (run_.state.is_ok() && !invalid.empty()) {
    run_.state.set_invalid(failed_precondition(invalid));
    run_.log.error("the run is invalid: " + invalid);
  }
  files_.write();
}

void RunEnd::on_filed(const Status& written) {
  run_.state.enter(RunStage::kOver);
  if (!written.is_ok()) {
    run_.log.error(written.message());
    run_.state.note(written);
  }
  // Only those are left to be told that were on their way in as the last one was lost.
  if (is_for_now() && run_.checkpoints.newest()) run_.state.set_resumable(true);
  end_nodes();
  run_.log.info("the run is over: " + run_.state.status());
  if (run_.state.nobody_left() && run_.checkpoints.newest()) log_how_to_resume();
}

}  // namespace paceline::server
