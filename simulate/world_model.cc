// What the authority does with a model, in virtual time: it says what shards apply and with which learning
// rate, has versions evaluated, and is left with the final one.
#include <algorithm>
#include <utility>

#include "server/store/decision.h"
#include "simulate/world.h"

namespace paceline::simulate {

// What the authority says, and that a version is to be evaluated, as it decides both. None is skipped: an
// evaluation takes no time.
void World::tell(Decision& decision, Ticks now) {
  const Version version = decision.apply.version_after;
  decision.told = server::apply_decision(plan_.config, decision.apply, decided_);
  decision.told.sequence = sequence_++;
  const std::optional<std::int64_t>& every = plan_.config.train.eval_every_clocks;
  if (every && version > decided_ && version.value % *every == 0) {
    decision.told.retain = true;
    decision.row = curve_.size();
    curve_.push_back({to_seconds(now - first_grant_), version, engine_.threshold()});
    curve_.back().iterations = plan_.config.train.iterations_in(decision.apply.revision_after.value);
    note_trained(curve_.back());
  }
  decided_ = version;
}

// In the row of an evaluation: how training went since the one before.
void World::note_trained(CurveRow& row) {
  const Metric since = trained_ - std::exchange(trained_evaluated_, trained_);
  row.train_loss = loss_of(since);
  row.train_accuracy = accuracy_of(since);
}

void World::evaluate(Version version, std::size_t row, Ticks now) {
  evaluated_ = {version, training_->evaluate(version)};
  curve_[row].test_accuracy = accuracy_of(evaluated_->second);
  curve_[row].test_loss = loss_of(evaluated_->second);
  const std::optional<double>& target = plan_.config.run.target_accuracy;
  if (target && *curve_[row].test_accuracy >= *target && !engine_.finished()) {
    step(sync::StopRequested{"target accuracy reached"}, now);
  }
}

// The model is what the shards hold when the last decision has been applied. A version is one state under
// versioned application, so what was evaluated need not be again.
void World::finish_model(Outcome& out) {
  if (summary_.status != "failed") {
    const bool versioned = engine_.apply_mode() == ApplyMode::kVersioned;
    if (!versioned || !evaluated_ || evaluated_->first != engine_.version()) {
      evaluated_ = {engine_.version(), training_->evaluate_now()};
      curve_.push_back({summary_.wall_seconds, engine_.version(), engine_.threshold()});
      curve_.back().iterations = plan_.config.train.iterations_in(engine_.iterations_applied());
      note_trained(curve_.back());
      curve_.back().test_accuracy = accuracy_of(evaluated_->second);
      curve_.back().test_loss = loss_of(evaluated_->second);
    }
    const Metric& metric = evaluated_->second;
    summary_.test_accuracy = accuracy_of(metric);
    summary_.test_loss = loss_of(metric);
  }
  out.model =
      ModelFile{{plan_.config.train.model, engine_.version(), engine_.revision(), training_->layout()},
                training_->parameters()};
}

}  // namespace paceline::simulate
