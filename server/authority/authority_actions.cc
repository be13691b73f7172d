// The core's actions into messages, in the order in which they were emitted.
#include <utility>
#include <variant>

#include "common/params/rates.h"
#include "server/authority/authority.h"
#include "server/store/decision.h"

namespace paceline::server {
namespace {

template <typename... Each>
struct Overloaded : Each... {
  using Each::operator()...;
};

}  // namespace

Status Authority::carry_out(const std::vector<sync::Action>& actions, Ticks now) {
  Status rejected;
  const bool may_save = training() && !reconfiguration_.under_way();
  const sync::Apply* const saved = may_save ? saves_.due(actions, evaluations_.schedule(), now) : nullptr;
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
      [&](const sync::HeldNotice& action) { instructions_.give(action); },
      [&](const sync::Discard& action) {
        outbox_.to_shards(wire::DiscardGradient{action.worker, action.clock});
      },
      [&](const sync::FinishWorker& action) {
        log_.info("worker " + to_string(action.worker) + " is finished: " + action.reason);
        instructions_.give(action, members_[action.worker.node] == NodeState::kJoined);
      },
      [&](const sync::RunFailed& action) {
        state_.set_failed(action.status);
        log_.error(action.status.message());
      },
      [&](const sync::AllFinished& action) {
        decision_record_.note(action, now);
        end_.begin(action.reason, now);
      },
      // Its consequences come with the next tick: this is in the middle of a step.
      [&](const sync::Quiesced&) { reconfiguration_.quiesced(); },
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
  files_so_far_.begin(now);
  checkpoints_.begin_training(engine_.version(), now);
  progress_.read(now);
  const std::string begins =
      resumed_ ? "training goes on at version " + to_string(engine_.version()) : "training begins";
  const std::uint32_t workers = members_.joined() * config_.cluster.threads_per_node;
  log_.info(begins + ": " + std::to_string(workers) + " workers, " + std::to_string(config_.cluster.shards) +
            " shards, threshold " + to_string(engine_.threshold()));
  if (const std::string rate = rate_text(config_); !rate.empty()) log_.info(rate);
}

void Authority::apply(const sync::Apply& action, bool is_saved, Ticks now) {
  decision_record_.note(action, now);
  wire::ApplyDecision decision = apply_decision(config_, action, outbox_.decided());
  // Each node of an all-reduce applies the sum by itself.
  if (nodes_hold_parameters(config_)) decision.contributions.clear();
  if (action.version_after > outbox_.decided()) {
    decision.retain =
        evaluations_.reached(action.version_after, {record_.seconds(now), engine_.threshold(),
                                                    config_.train.iterations_in(action.revision_after.value),
                                                    step_reports_.trained()});
  }
  decision.save = is_saved;
  // Ahead of the grants with which the nodes leave this version.
  if (nodes_hold_parameters(config_) && decision.save) node_parameters_.ask(action.version_after);
  if (nodes_hold_parameters(config_) && decision.retain)
    node_parameters_.keep(action.version_after, evaluations_.schedule());
  outbox_.decide(std::move(decision));
  evaluations_.ask(now);
}

void Authority::save_checkpoint() {
  if (!state_.is(Stage::kGathering) && !training()) {
    return log_.warn("asked for a checkpoint: training is over");
  }
  if (engine_.config().group > 1 && engine_.apply_mode() == ApplyMode::kEager) {
    return log_.warn(
        "asked for a checkpoint: none is saved, since it is of one clock of all stages, and with "
        "sync.apply: eager there is none");
  }
  checkpoints_.ask();
  log_.warn("asked for a checkpoint: the next version " + to_string(engine_.version()) + " is saved");
}

}  // namespace paceline::server
