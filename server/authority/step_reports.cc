#include "server/authority/step_reports.h"

#include <algorithm>

#include "server/authority/node_parameters.h"

namespace paceline::server {

StepReports::StepReports(const RunConfig& config, RunCore& core, const RunOutcome& state,
                         WorkerSpeeds& speeds, RunRecord& record, Instructions& instructions,
                         DecisionRecord& decisions)
    : config_(config),
      core_(core),
      state_(state),
      speeds_(speeds),
      record_(record),
      instructions_(instructions),
      decision_record_(decisions) {}

Result<StepReports::Taken> StepReports::take(wire::StepReport report, Ticks now) {
  const sync::Engine& engine = core_.engine();
  const bool reduces = nodes_hold_parameters(config_);
  // It counts as if nobody were ever lost.
  if (reduces) report.computed_revision = std::min(report.computed_revision, engine.revision());
  // Read first: the next grant may follow at once.
  const Ticks granted = speeds_.granted_at(report.worker, now);
  const MetricSum trained = trained_;
  const LossScale scale = record_.loss_scale(report.worker);
  const std::int64_t skipped = engine.iterations_skipped();
  if (!report.skipped) trained_ += report.metric;      // the version that it completes counts it
  record_.reported(report.worker, report.loss_scale);  // and a checkpoint of it has this
  // Its gradient is in the sum that every node has, and goes to no shard.
  Status taken = Status::ok();
  if (reduces && !report.skipped) {
    taken = core_.step(
        sync::GradientArrived{kAuthority, report.worker, report.clock, report.metric.samples, ""}, now);
  }
  if (taken.is_ok()) {
    taken = core_.step(
        sync::StepReported{report.worker, report.clock, report.metric, report.computed_version,
                           report.computed_revision, report.skipped, report.fault, report.own_updates},
        now);
  }
  if (!taken) {
    trained_ = trained;
    record_.reported(report.worker, scale);
    if (taken.code() == StatusCode::kOutOfOrder) instructions_.answer_again(report.worker, engine, now);
    return taken;
  }
  if (reduces && state_.has_failed()) return Taken::kRunFailed;
  if (config_.train.on_nan == OnNan::kSkip && engine.iterations_skipped() > skipped) {
    decision_record_.note_skipped(report);
  }
  speeds_.took(report, granted, now);
  if (engine.config().grants_ahead) speeds_.granted(report.worker, now);
  return Taken::kTaken;
}

}  // namespace paceline::server
