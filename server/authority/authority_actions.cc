// The core's actions into messages, in the order in which they were emitted.
#include <algorithm>
#include <utility>
#include <variant>

#include "server/authority/authority.h"

namespace paceline::server {
namespace {

template <typename... Each>
struct Overloaded : Each... {
  using Each::operator()...;
};

}  // namespace

Status Authority::carry_out(const std::vector<sync::Action>& actions, Ticks now) {
  Status rejected;
  const bool may_save = training() && !handing_over_;
  const sync::Apply* const saved = may_save ? saves_.due(actions, evaluation_, now) : nullptr;
  const Overloaded carry_out_one{
      [&](const sync::Started&) { begin_training(now); },
      [&](const sync::Apply& action) { apply(action, &action == saved, now); },
      [&](const sync::Grant& action) {
        record_.granted(action);
        // It begins what it is granted ahead once it has reported.
        const bool ahead = engine_.config().grants_ahead && action.clock != engine_.clock_of(action.worker);
        if (!ahead) speeds_.granted(action.worker, now);
        instructions_.give(action);
      },
      [&](const sync::Held& action) { instructions_.give(action); },
      [&](const sync::Discard& action) {
        outbox_.to_shards(wire::DiscardGradient{action.worker, action.clock});
      },
      [&](const sync::FinishWorker& action) {
        log_.info("worker " + to_string(action.worker) + " is finished: " + action.reason);
        instructions_.give(action, members_[action.worker.node] == NodeState::kJoined);
      },
      [&](const sync::RunFailed& action) {
        state_.fail(action.status);
        log_.error(action.status.message());
      },
      [&](const sync::AllFinished& action) { end_training(action, now); },
      // Its consequences come with the next tick: this is in the middle of a step.
      [&](const sync::Quiesced&) { handing_over_->rests = true; },
      [&](const sync::Reject& action) { rejected = action.status; },
      [&](const auto& action) { decision_record_.note(action, now); },
  };
  for (const sync::Action& action : actions) std::visit(carry_out_one, action);
  decision_record_.note_plan();
  if (saved != nullptr) saves_.begin(now);
  return rejected;
}

void Authority::begin_training(Ticks now) {
  record_.begin(now, engine_.threshold());
  so_far_from_ = record_.seconds(now);
  so_far_due_ = so_far_from_ + 1.0;
  checkpoints_.begin_training(engine_.version(), now);
  iteration_rate_.read(core_.iterations_applied(), now);
  sample_rate_.read(trained_.samples, now);
  const std::string begins =
      resumed_ ? "training goes on at version " + to_string(engine_.version()) : "training begins";
  const std::uint32_t workers = members_.joined() * config_.cluster.threads_per_node;
  log_.info(begins + ": " + std::to_string(workers) + " workers, " + std::to_string(config_.cluster.shards) +
            " shards, threshold " + to_string(engine_.threshold()));
}

void Authority::apply(const sync::Apply& action, bool is_saved, Ticks now) {
  decision_record_.note(action, now);
  wire::ApplyDecision decision = decisions_.of(action);
  if (decisions_.advances(action)) {
    const std::int64_t skipped = evaluation_.skipped();
    decision.retain = evaluation_.reached(action.version_after, {record_.seconds(now), engine_.threshold(),
                                                                 action.revision_after.value, trained_});
    if (evaluation_.skipped() > skipped) {
      log_.info("version " + to_string(action.version_after) +
                " is not evaluated: two evaluations are under way");
    }
  }
  if (decision.retain) checkpoints_.will_be_evaluated(action.version_after);
  decision.save = is_saved;
  // Ahead of the grants with which the nodes leave this version.
  if (reduces() && decision.save) ask_state(action.version_after);
  if (reduces() && decision.retain) keep_for_evaluation(action.version_after);
  decisions_.send(std::move(decision));
  ask_evaluation(now);
}

void Authority::end_training(const sync::AllFinished& action, Ticks now) {
  decision_record_.training_over(now);
  state_.enter(Stage::kEnding);
  ending_since_ = now;
  if (action.reason == sync::EndReason::kNobodyLeft) state_.lose_everybody();
  if (state_.nobody_left() && !state_.is_stopped()) {
    state_.fail(unavailable("every node was lost before its share was done"));
    log_.error(state_.result().message());
  }
  decision_record_.note(action);
  if (reduces() && !state_.nobody_left()) final_state_comes();
}

void Authority::save_checkpoint() {
  if (!state_.is(Stage::kGathering) && !training()) {
    return log_.warn("asked for a checkpoint: training is over");
  }
  checkpoints_.ask();
  log_.warn("asked for a checkpoint: the version behind " + to_string(engine_.version()) + " is saved");
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

}  // namespace paceline::server
