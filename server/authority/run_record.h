// RunRecord: what a run leaves behind. Collects what happened (curve rows as they come, who came and went, the
// reports of nodes and shards) and makes phases.csv and summary.json of it at the end (formats:
// common/report).
//
// Thread: one at a time (the server's loop); the work of writer(): any.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/config/run_config.h"
#include "common/instant.h"
#include "common/log/log.h"
#include "common/metric.h"
#include "common/metric_sum.h"
#include "common/report/batch_sizes.h"
#include "common/report/churn.h"
#include "common/report/curve.h"
#include "common/report/phases_csv.h"
#include "common/report/progress.h"
#include "common/report/run_summary.h"
#include "common/report/staleness.h"
#include "common/report/tensorboard.h"
#include "common/status.h"
#include "common/sync/actions.h"
#include "common/sync/engine.h"
#include "server/authority/evaluation.h"
#include "server/authority/report_totals.h"
#include "server/authority/run_record_state.h"

namespace paceline::server {

class RunRecord {
 public:
  // Opens curve.csv in config.run.out, which exists. `config` and `log` must outlive the record.
  // Errors: those of CurveWriter::open.
  static Result<RunRecord> open(const RunConfig& config, const Log& log);
  // Goes on where a run was saved: `state` at `version`, after `seconds` of training, to be gone on with as
  // `generation`. curve.csv is cut to that version; one that cannot be read becomes curve.csv.broken, and a
  // warning says so. Errors: those of CurveWriter::resume but kDataLoss.
  struct Saved {
    RunRecordState state;
    Version version;
    double seconds = 0.0;
    std::uint64_t generation = 2;
  };
  static Result<RunRecord> resume(const RunConfig& config, Saved saved, const Log& log);
  // What a checkpoint of this moment holds of it, besides seconds().
  RunRecordState state() const;

  // Training begins, under `threshold`, or goes on.
  void begin(Ticks first_grant, Threshold threshold);
  // Of training: since the first grant, and those before a resume.
  double seconds(Ticks now) const {
    return seconds_before_ + (first_grant_ ? to_seconds(now - *first_grant_) : 0.0);
  }
  // The last worker has got its last reply.
  void training_over(Ticks now) { wall_seconds_ = seconds(now); }
  // Of all training, once it is over; 0 before.
  double wall_seconds() const { return wall_seconds_; }

  // Each decision, in order.
  void applied(const sync::Apply& apply) { staleness_.add(apply); }
  // Each grant, in order.
  void granted(const sync::Grant& grant) {
    if (batch_sizes_) batch_sizes_->add(grant);
  }
  // What a worker says of its loss scale, and has said last, also before a resume; of another run's worker nothing.
  void reported(WorkerId worker, const LossScale& scale);
  LossScale loss_scale(WorkerId worker) const;
  // Balanced batches: BatchSizeRecord::change(); else empty.
  std::string batch_size_change() { return batch_sizes_ ? batch_sizes_->change() : ""; }
  // Of each worker, likewise; else nullptr.
  const WorkerBatchSizes* batch_sizes() const { return batch_sizes_ ? &batch_sizes_->sizes() : nullptr; }
  // `iterations`: in the global parameters by now; of local steps the mini-batches.
  void window(const sync::WindowClosed& window, std::int64_t iterations, Ticks now);
  void switched(const sync::PolicySwitched& action, Ticks now);
  void evaluation(Version version, const Moment& reached, const Metric& metric);
  // The version evaluated last is the final one: its metric is the run's.
  void last_evaluation_is_final() { final_metric_ = last_metric_; }
  // Of what a lost node has left nobody will do so many of the core's iterations, of a run that goes to its end.
  void undone(std::int64_t iterations) { undone_ = iterations; }
  // What the trace has, once the work that writes it has said so there; the writer()'s comes after that.
  void traced(std::shared_ptr<const std::optional<TraceCounts>> counts) { traced_ = std::move(counts); }
  // Of this generation, as things are now.
  void checkpoints(std::int64_t written, std::int64_t failed);
  // Who was slow at the end, the slowest first.
  void stragglers(std::vector<StragglerSummary> workers) { stragglers_ = std::move(workers); }

  ChurnRecord& churn() { return churn_; }
  const ChurnRecord& churn() const { return churn_; }
  ReportTotals& reports() { return reports_; }
  bool has_report(NodeId node) const { return reports_.has(node); }
  ProgressRecord& progress() { return progress_; }

  // For whoever looks while the run goes; accuracies 0..1, LPR in per cent.
  struct Newest {
    std::optional<double> train_loss;
    std::optional<double> train_accuracy;
    std::optional<double> test_loss;
    std::optional<double> test_accuracy;
    std::optional<double> lpr;
  };
  const Newest& newest() const { return newest_; }
  const std::vector<WorkerStaleness>& staleness() const { return staleness_.workers(); }
  // Of the step that leads to `version`, as rows of curve.csv have it (common/params/rates.h).
  double rate_to(Version version) const;
  // Of curve.csv, since it was opened.
  std::int64_t curve_rows() const { return curve_rows_; }

  // What writes phases.csv (when anybody reported), staleness.csv, progress.csv and summary.json, as things
  // are now; it needs the record no more, but shares its event file: the record is told nothing after it.
  // `status`: "ok", "stopped", "failed", "invalid". Its errors: common/files/atomic_file.h.
  std::function<Status()> writer(const sync::Engine& engine, const std::string& status,
                                 const std::string& reason) const;
  // What of that a run leaves that is killed: writes staleness.csv, progress.csv and, of the nodes that have
  // said where the time went, phases_so_far.csv, as things are now. Its errors: as above.
  std::function<Status()> writer_so_far(std::vector<WorkerTimes> times = {}) const;

 private:
  RunRecord(const RunConfig& config, CurveWriter curve, const Log& log);
  void append(CurveRow row);
  void begin_events();
  void note_trained(const CurveRow& row);

  const RunConfig* config_;
  CurveWriter curve_;
  std::shared_ptr<EventFile> events_;  // from begin() on; none: not wanted, or no more to be written
  StalenessRecord staleness_;
  ProgressRecord progress_;
  ChurnRecord churn_;
  ReportTotals reports_;
  std::vector<PolicyChange> switches_;
  std::vector<StragglerSummary> stragglers_;
  std::optional<BatchSizeRecord> batch_sizes_;  // none: sizes are equal
  std::vector<LossScale> loss_scales_;          // by rank; empty: no gradient is computed in float16
  const Log* log_;
  double seconds_before_ = 0.0;  // of training, before this generation
  std::uint64_t generation_ = 1;
  std::optional<Version> resumed_from_;
  CheckpointCounts checkpoints_before_;
  std::optional<CheckpointCounts> checkpoints_;  // none: none are configured
  std::optional<Ticks> first_grant_;
  double wall_seconds_ = 0.0;
  Newest newest_;
  std::int64_t curve_rows_ = 0;
  MetricSum trained_;                   // as of the last evaluation
  Version trained_until_ = kNoVersion;  // what its numbers of training are of
  std::optional<Metric> last_metric_;
  std::optional<Metric> final_metric_;
  std::int64_t undone_ = 0;
  std::shared_ptr<const std::optional<TraceCounts>> traced_;  // the background's; none: no trace
};

}  // namespace paceline::server
