#include "server/authority/evaluations.h"

#include <utility>

#include "server/run/seconds_text.h"

namespace paceline::server {

Evaluations::Evaluations(const RunConfig& config, RunCore& core, const RunMembers& members, RunOutcome& state,
                         RunRecord& record, Checkpoints& checkpoints, RunOutbox& outbox, const Log& log)
    : config_(config),
      core_(core),
      members_(members),
      state_(state),
      record_(record),
      checkpoints_(checkpoints),
      outbox_(outbox),
      log_(log),
      schedule_(config.train.eval_every_clocks) {}

bool Evaluations::reached(Version version, const Moment& moment) {
  const std::int64_t skipped = schedule_.skipped();
  const bool is_taken = schedule_.reached(version, moment);
  if (schedule_.skipped() > skipped) {
    log_.info("version " + to_string(version) + " is not evaluated: two evaluations are under way");
  }
  if (is_taken) checkpoints_.will_be_evaluated(version);
  return is_taken;
}

void Evaluations::reached_final(const Moment& moment) {
  of_the_end_ = true;
  const sync::Engine& engine = core_.engine();
  if (engine.apply_mode() == ApplyMode::kVersioned && newest_ == engine.version()) {
    return record_.last_evaluation_is_final();
  }
  if (state_.has_failed() || state_.nobody_left()) return;
  checkpoints_.will_be_evaluated(engine.version());
  schedule_.reached_final(engine.version(), moment);
}

void Evaluations::ask(Ticks now) {
  const auto node = members_.lowest();
  const auto request = schedule_.ask(node);
  if (!request) return;
  asked_at_ = now;
  if (core_.trace() != nullptr) core_.trace()->evaluation(*node, request->version, now);
  outbox_.to_node(*node, *request);
}

Result<Evaluations::Taken> Evaluations::take(NodeId from, const wire::EvaluationReport& report, Ticks now) {
  const Metric& metric = report.metric;
  const bool sound = metric.samples >= 0 && metric.counts_samples();
  if (report.fault.empty() && !sound) {
    return invalid_argument("evaluation by node " + to_string(from) + ": " + std::to_string(metric.correct) +
                            " correct of " + std::to_string(metric.samples) + " samples");
  }
  const auto reached = schedule_.reported(from, report.version);
  if (!reached && schedule_.late(from, report.version)) {
    log_.info("node " + to_string(from) + " has evaluated version " + to_string(report.version) +
              " too late: it was given up");
    return Taken::kTooLate;
  }
  if (!reached) {
    return out_of_order("evaluation of version " + to_string(report.version) + " by node " + to_string(from) +
                        ": it was not asked for");
  }
  if (core_.trace() != nullptr) core_.trace()->evaluated(report.version, now);
  usual_.took(now - asked_at_);
  outbox_.to_shards(wire::Release{report.version});
  checkpoints_.evaluated(report.version, report.fault.empty() ? accuracy_of(metric) : std::nullopt);
  if (!report.fault.empty()) {
    not_evaluated(report.version, report.fault);
    return Taken::kTaken;
  }
  if (metric.samples == 0) {
    log_.info("version " + to_string(report.version) + " has no measure: the task does not evaluate");
    return Taken::kTaken;
  }
  record_.evaluation(report.version, *reached, metric);
  newest_ = report.version;
  if (of_the_end_) record_.last_evaluation_is_final();
  const std::optional<double> accuracy = accuracy_of(metric);
  log_.info("version " + to_string(report.version) + ": " +
            (accuracy ? "test accuracy " + std::to_string(*accuracy) + ", " : "test ") + "loss " +
            std::to_string(metric.loss_sum / static_cast<double>(metric.samples)));
  if (!accuracy) miss_accuracy(report.version);
  const bool on_target = config_.run.target_accuracy && accuracy && *accuracy >= *config_.run.target_accuracy;
  return on_target ? Taken::kOnTarget : Taken::kTaken;
}

// Said once.
void Evaluations::miss_accuracy(Version version) {
  const char* what = config_.run.target_accuracy        ? "run.target_accuracy is not reached"
                     : config_.checkpoint.keep_best > 0 ? "checkpoint.keep_best keeps none"
                                                        : nullptr;
  if (what == nullptr || std::exchange(has_missed_accuracy_, true)) return;
  log_.warn("version " + to_string(version) +
            " has no accuracy, since correct samples were not counted; without one " + what);
}

// A run is for its final model: one without a measure of it is no success. An evaluation during training is
// worth less than going on.
void Evaluations::not_evaluated(Version version, const std::string& why) {
  const std::string what = "version " + to_string(version) + " was not evaluated: " + why;
  log_.warn(what);
  if (of_the_end_) state_.lacks("the final model, " + what);
}

void Evaluations::give_up(Version version, const std::string& why) {
  not_evaluated(version, why);
  checkpoints_.evaluated(version, std::nullopt);
  outbox_.to_shards(wire::Release{version});
}

void Evaluations::abandon() {
  for (const Version version : schedule_.abandon()) give_up(version, "no node is left to do it");
}

void Evaluations::check(Ticks now) {
  const auto allowed = kLeases * config_.cluster.lease;
  const auto asked = schedule_.asked();
  if (!asked || now - asked_at_ <= allowed) return;
  schedule_.give_up();
  give_up(asked->version,
          "node " + to_string(asked->node) + " has not answered within " + whole_seconds_text(allowed));
  ask(now);
}

}  // namespace paceline::server
