// StepReports: what the workers' reports of their iterations say, as events of the core; and what they sum up to.
//
// Thread: one at a time (the server's loop).
#pragma once

#include "common/config/run_config.h"
#include "common/instant.h"
#include "common/metric_sum.h"
#include "common/status.h"
#include "common/wire/messages.h"
#include "server/authority/decision_record.h"
#include "server/authority/instructions.h"
#include "server/authority/run_core.h"
#include "server/authority/run_outcome.h"
#include "server/authority/worker_speeds.h"

namespace paceline::server {

class StepReports {
 public:
  // All outlive this.
  StepReports(const RunConfig& config, RunCore& core, const RunOutcome& state, WorkerSpeeds& speeds,
              RunRecord& record, Instructions& instructions, DecisionRecord& decisions);

  // The core takes it; one that it has taken before is answered again. kRunFailed: an all-reduce whose sum lacks the
  // gradient of one worker, so nobody can finish the iteration; the outcome says why, and the run is to end. Errors:
  // what its sender is told.
  enum class Taken { kTaken, kRunFailed };
  [[nodiscard]] Result<Taken> take(wire::StepReport report, Ticks now);

  // Of all that were taken, of this generation.
  const MetricSum& trained() const { return trained_; }

 private:
  const RunConfig& config_;
  RunCore& core_;
  const RunOutcome& state_;
  WorkerSpeeds& speeds_;
  RunRecord& record_;
  Instructions& instructions_;
  DecisionRecord& decision_record_;
  MetricSum trained_;
};

}  // namespace paceline::server
