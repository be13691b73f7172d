// RunRecord: what is known of a simulated run as it goes: the curve, who was lost and came back, staleness,
// progress, sizes of mini-batches, and of the summary what events tell. Seconds count from the first grant.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/instant.h"
#include "common/report/batch_sizes.h"
#include "common/report/churn.h"
#include "common/report/curve.h"
#include "common/report/progress.h"
#include "common/report/run_summary.h"
#include "common/report/staleness.h"
#include "common/sync/actions.h"
#include "common/sync/engine.h"
#include "simulate/outcome.h"
#include "simulate/plan.h"
#include "simulate/worker.h"

namespace paceline::simulate {

// Thread: one.
class RunRecord {
 public:
  // `trains`: training mode, where it is known how well training goes.
  RunRecord(const Plan& plan, bool trains);

  // The first grants leave.
  void begin(Threshold threshold, Ticks now);
  Ticks first_grant() const { return first_grant_; }

  // What the core has decided, each once, in its order.
  void add(const sync::Grant& grant);
  void add(const sync::Apply& decision);
  void add(const sync::WindowClosed& window, Ticks now);
  void add(const sync::PolicySwitched& change, Ticks now);
  void add(const sync::AllFinished& finished, Ticks now);
  void fail(std::string why);
  bool failed() const { return summary_.status == "failed"; }

  // Whether a row of progress is to be noted, and that; as ProgressRecord has both.
  bool progress_is_due(Ticks now) const { return progress_.due(seconds(now)); }
  void note_progress(Ticks now, const Traffic& moved,
                     const std::function<std::optional<std::int64_t>(WorkerId)>& gap_of) {
    progress_.note(seconds(now), moved, gap_of);
  }

  // Of a version that is evaluated, now or at the end, a row of the curve: its number.
  std::size_t add_row(Ticks now, Version version, Threshold threshold, std::int64_t gradients);
  std::size_t add_last_row(Version version, Threshold threshold, std::int64_t gradients);
  CurveRow& row(std::size_t number) { return curve_[number]; }

  ChurnRecord& churn() { return churn_; }

  // The rest of the summary, where another party counts it.
  RunSummary& summary() { return summary_; }
  // A run that is over: all but the model, the events and the trace. Once.
  Outcome finish(const sync::Engine& engine, std::vector<WorkerPhases> phases, const Worker::Totals& totals);

 private:
  double seconds(Ticks now) const { return to_seconds(now - first_grant_); }

  const Plan& plan_;
  const bool knows_metric_;
  Ticks first_grant_;
  Revision applied_;
  RunSummary summary_;
  std::vector<CurveRow> curve_;
  ChurnRecord churn_;
  StalenessRecord staleness_;
  ProgressRecord progress_;
  std::optional<BatchSizeRecord> batch_sizes_;  // none: sizes are equal
};

}  // namespace paceline::simulate
