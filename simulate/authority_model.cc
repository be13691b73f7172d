#include "simulate/authority_model.h"

#include "server/store/decision.h"

namespace paceline::simulate {

AuthorityModel::AuthorityModel(const Plan& plan, Training& training, const sync::Engine& engine,
                               RunRecord& record)
    : plan_(plan), training_(training), engine_(engine), record_(record) {}

AuthorityModel::Announced AuthorityModel::announce(const sync::Apply& decision, Ticks now) {
  const Version version = decision.version_after;
  Announced announced{server::apply_decision(plan_.config, decision, decided_), std::nullopt};
  announced.decision.sequence = sequence_++;
  const std::optional<std::int64_t>& every = plan_.config.train.eval_every_clocks;
  if (every && version > decided_ && version.value % *every == 0) {
    announced.decision.retain = true;
    announced.row = record_.add_row(now, version, engine_.threshold(), decision.revision_after.value);
    note_trained(record_.row(*announced.row));
  }
  decided_ = version;
  return announced;
}

// In the row of an evaluation: how training went since the one before.
void AuthorityModel::note_trained(CurveRow& row) {
  const Metric since = trained_ - std::exchange(trained_evaluated_, trained_);
  row.train_loss = loss_of(since);
  row.train_accuracy = accuracy_of(since);
}

void AuthorityModel::note_evaluated(CurveRow& row) const {
  row.test_accuracy = accuracy_of(evaluated_->second);
  row.test_loss = loss_of(evaluated_->second);
}

bool AuthorityModel::evaluate(Version version, std::size_t row) {
  evaluated_ = {version, training_.evaluate(version)};
  note_evaluated(record_.row(row));
  const std::optional<double>& target = plan_.config.run.target_accuracy;
  return target && *record_.row(row).test_accuracy >= *target;
}

// The model is what the shards hold when the last decision has been applied. A version is one state under
// versioned application, so what was evaluated need not be again.
ModelFile AuthorityModel::finish() {
  if (!record_.failed()) {
    const bool versioned = engine_.apply_mode() == ApplyMode::kVersioned;
    if (!versioned || !evaluated_ || evaluated_->first != engine_.version()) {
      evaluated_ = {engine_.version(), training_.evaluate_now()};
      CurveRow& row = record_.row(
          record_.add_last_row(engine_.version(), engine_.threshold(), engine_.iterations_applied()));
      note_trained(row);
      note_evaluated(row);
    }
    record_.summary().test_accuracy = accuracy_of(evaluated_->second);
    record_.summary().test_loss = loss_of(evaluated_->second);
  }
  return {{plan_.config.train.model, engine_.version(), engine_.revision(), training_.layout()},
          training_.parameters()};
}

}  // namespace paceline::simulate
