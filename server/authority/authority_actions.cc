// The core's actions into messages, in the order in which they were emitted.
#include <algorithm>
#include <bit>
#include <cstdio>
#include <utility>

#include "common/checkpoint/engine_state.h"
#include "common/config/names.h"
#include "server/authority/authority.h"
#include "server/store/decision.h"

namespace paceline::server {
namespace {

std::string per_cent(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", value);
  return text;
}

}  // namespace

Status Authority::step(const sync::Event& event, Ticks now) {
  actions_.clear();
  rejected_ = Status::ok();
  engine_.step(event, now, actions_);
  if (trace_) trace_->stepped(event, actions_, engine_, now);
  saved_apply_ = apply_to_save(now);
  for (const sync::Action& action : actions_) {
    std::visit([&](const auto& a) { carry_out(a, now); }, action);
  }
  if (std::exchange(plan_change_, engine_.plan_change()) != engine_.plan_change()) log_plan();
  if (std::exchange(saved_apply_, nullptr) != nullptr) begin_checkpoint(now);
  return std::exchange(rejected_, Status::ok());
}

void Authority::log_plan() const {
  constexpr std::size_t kNamed = 8;
  const sync::EvenShare::Newest plan = engine_.plan();
  std::string who;
  for (std::size_t i = 0; i < std::min(kNamed, plan.workers.size()); ++i) {
    who += (i == 0 ? "" : ", ") + to_string(config_.cluster.cluster().worker_at(plan.workers[i]));
  }
  if (plan.workers.size() > kNamed) who += " and " + std::to_string(plan.workers.size() - kNamed) + " more";
  log_.info("plan " + std::to_string(plan.change) + " from clock " + to_string(plan.first) + ", base " +
            std::to_string(plan.base) + ", mini-batches of " + std::to_string(config_.train.batch_size) +
            ": workers " + who);
}

// The engine is where it will be once all of its actions are carried out, so the last decision among them is
// the one that can be saved together with it.
const sync::Apply* Authority::apply_to_save(Ticks now) {
  if (!checkpoints_.enabled() || !state_.is(Stage::kTraining) || handing_over_) return nullptr;
  const sync::Apply* last = nullptr;
  for (const sync::Action& action : actions_) {
    if (const auto* apply = std::get_if<sync::Apply>(&action)) last = apply;
  }
  if (last == nullptr || last->version_after != engine_.version() ||
      last->revision_after != engine_.revision() ||
      !checkpoints_.due(last->version_after, now, evaluation_.takes(last->version_after))) {
    return nullptr;
  }
  return last;
}

void Authority::save_checkpoint() {
  if (!state_.is(Stage::kGathering) && !state_.is(Stage::kTraining)) {
    return log_.warn("asked for a checkpoint: training is over");
  }
  checkpoints_.ask();
  log_.warn("asked for a checkpoint: the version behind " + to_string(engine_.version()) + " is saved");
}

// Behind the decision whose state the shards are to save.
void Authority::begin_checkpoint(Ticks now) {
  Manifest manifest;
  manifest.id.version = engine_.version();
  manifest.revision = engine_.revision();
  manifest.decisions = sequence_;
  manifest.layout_hash = layout_.hash();
  manifest.data_fingerprint = data_fingerprint_;
  manifest.seconds_trained = state_.training() ? record_.seconds(now) : record_.wall_seconds();
  manifest.engine = checkpoint::to_bytes(engine_.state());
  record_.checkpoints(checkpoints_.written(), checkpoints_.failed());
  manifest.record = to_bytes(record_.state());
  if (trace_) trace_->saving(manifest.id.version, now);
  checkpoints_.begin(std::move(manifest), now);
}

void Authority::carry_out(const sync::Started&, Ticks now) {
  first_grant_ = now;
  record_.begin(now, engine_.threshold());
  so_far_from_ = record_.seconds(now);
  so_far_due_ = so_far_from_ + 1.0;
  checkpoints_.begin_training(engine_.version(), now);
  iteration_rate_.read(iterations_applied(), now);
  sample_rate_.read(trained_.samples, now);
  const std::string begins =
      resumed_ ? "training goes on at version " + to_string(engine_.version()) : "training begins";
  const std::uint32_t workers = members_.joined() * config_.cluster.threads_per_node;
  log_.info(begins + ": " + std::to_string(workers) + " workers, " + std::to_string(config_.cluster.shards) +
            " shards, threshold " + to_string(engine_.threshold()));
}

void Authority::carry_out(const sync::Apply& action, Ticks now) {
  record_.applied(action);
  revision_ = action.revision_after;
  wire::ApplyDecision decision = apply_decision(config_, action, decided_);
  if (reduces()) decision.contributions.clear();  // each node applies the sum by itself
  if (action.version_after > decided_) {
    const std::int64_t skipped = evaluation_.skipped();
    decision.retain = evaluation_.reached(action.version_after, {record_.seconds(now), engine_.threshold(),
                                                                 action.revision_after.value, trained_});
    if (evaluation_.skipped() > skipped) {
      log_.info("version " + to_string(action.version_after) +
                " is not evaluated: two evaluations are under way");
    }
  }
  if (decision.retain) checkpoints_.will_be_evaluated(action.version_after);
  decision.save = &action == saved_apply_;
  // Ahead of the grants with which the nodes leave this version.
  if (reduces() && decision.save) ask_state(action.version_after);
  if (reduces() && decision.retain) keep_for_evaluation(action.version_after);
  decided_ = action.version_after;
  send_decision(std::move(decision));
  ask_evaluation(now);
}

// Of an all-reduce the nodes that have all of its parameters: the lowest; of stages as many. (None of those is lost while
// the others go on.)
std::vector<NodeId> Authority::first_group() const {
  std::vector<NodeId> nodes = members_.in(NodeState::kJoined);
  nodes.resize(std::min<std::size_t>(nodes.size(), config_.pipeline.stages));
  return nodes;
}

// Of those that have it, or of each node its part.
void Authority::ask_state(Version version) {
  for (const NodeId node :
       config_.exchange.shard_optimizer ? members_.in(NodeState::kJoined) : first_group()) {
    outbox_.to_node(node, wire::StateWanted{version});
  }
}

// The node that will be asked for it, unless it is at once: the lowest, which is the same throughout. And those that
// have the other stages, which give it theirs.
void Authority::keep_for_evaluation(Version version) {
  for (const NodeId node : first_group()) {
    const bool is_asked_at_once = node == members_.lowest() && !evaluation_.asked();
    if (!is_asked_at_once) outbox_.to_node(node, wire::Evaluate{version, false, /*later=*/true});
  }
}

void Authority::send_decision(wire::ApplyDecision decision) {
  decision.sequence = sequence_++;
  outbox_.to_shards(decision);
}

void Authority::carry_out(const sync::Grant& action, Ticks now) {
  record_.granted(action);
  // It begins what it is granted ahead once it has reported.
  const bool ahead = engine_.config().grants_ahead && action.clock != engine_.clock_of(action.worker);
  if (!ahead) speeds_.granted(action.worker, now);
  instructions_.give(action);
}

void Authority::carry_out(const sync::Held& action, Ticks) { instructions_.give(action); }

void Authority::carry_out(const sync::VersionAdvanced& action, Ticks) {
  log_.debug("version " + to_string(action.version));
}

void Authority::carry_out(const sync::ThresholdChanged& action, Ticks) {
  log_.info("threshold " + to_string(action.from) + " -> " + to_string(action.to) + " at version " +
            to_string(action.version) + ": LPR " + per_cent(action.lpr));
}

void Authority::carry_out(const sync::PolicySwitched& action, Ticks now) {
  record_.switched(action, now);
  log_.info(std::string("policy ") + name_of(action.from) + " -> " + name_of(action.to) + " at version " +
            to_string(action.version) + ": threshold " + to_string(action.threshold_from) + " -> " +
            to_string(action.threshold_to) +
            (engine_.apply_mode() == ApplyMode::kEager ? ", gradients are applied on arrival" : ""));
}

void Authority::carry_out(const sync::WindowClosed& action, Ticks now) {
  record_.window(action, config_.train.iterations_in(revision_.value), now);
  log_.info("window " + std::to_string(action.index) + " closed at version " + to_string(action.version) +
            ": train accuracy " + per_cent(action.accuracy * 100) + ", loss " +
            std::to_string(action.loss_mean) + (action.lpr ? ", LPR " + per_cent(*action.lpr) : ""));
  say_batch_sizes();
}

// Sizes may change every few clocks: said at the end of a window, and of the run.
void Authority::say_batch_sizes() {
  const std::string sizes = record_.batch_size_change();
  const bool rounds = config_.train.local_balance != BatchSizing::kEqual;
  if (!sizes.empty()) {
    log_.info(std::string(rounds ? "samples in a round" : "mini-batches") +
              " by speed, as granted last: " + sizes);
  }
}

// A run that has diverged skips all: the first is said, and each time that there are twice as many.
void Authority::say_skipped(const wire::StepReport& report) {
  const auto skipped = static_cast<std::uint64_t>(engine_.iterations_skipped());
  if (!std::has_single_bit(skipped)) return;
  log_.warn("worker " + to_string(report.worker) + " has skipped its iteration of clock " +
            to_string(report.clock) + " (train.on_nan: skip): " + report.fault + "; " + skips_so_far());
}

std::string Authority::skips_so_far() const {
  const std::int64_t skipped = config_.train.iterations_in(engine_.iterations_skipped());
  return std::to_string(skipped) + " of " + std::to_string(iterations_applied() + skipped) +
         " iterations are skipped so far";
}

void Authority::carry_out(const sync::Discard& action, Ticks) {
  outbox_.to_shards(wire::DiscardGradient{action.worker, action.clock});
}

void Authority::carry_out(const sync::FinishWorker& action, Ticks) {
  log_.info("worker " + to_string(action.worker) + " is finished: " + action.reason);
  instructions_.give(action, members_[action.worker.node] == NodeState::kJoined);
}

void Authority::carry_out(const sync::RunFailed& action, Ticks) {
  state_.fail(action.status);
  log_.error(action.status.message());
}

void Authority::carry_out(const sync::AllFinished& action, Ticks now) {
  record_.training_over(now);
  say_batch_sizes();
  state_.enter(Stage::kEnding);
  ending_since_ = now;
  if (action.reason == sync::EndReason::kNobodyLeft) state_.lose_everybody();
  if (state_.nobody_left() && !state_.is_stopped()) {
    state_.fail(unavailable("every node was lost before its share was done"));
    log_.error(state_.result().message());
  }
  if (config_.train.on_nan == OnNan::kSkip && engine_.iterations_skipped() > 0)
    log_.warn("not all was learned from: " + skips_so_far());
  log_.info("training is over at version " + to_string(action.version) + ", " + to_string(action.revision) +
            " gradients applied");
  if (reduces() && !state_.nobody_left()) final_state_comes();
}

void Authority::carry_out(const sync::Reject& action, Ticks) { rejected_ = action.status; }

}  // namespace paceline::server
