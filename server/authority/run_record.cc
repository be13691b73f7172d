#include "server/authority/run_record.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "common/config/names.h"
#include "common/params/rates.h"
#include "common/report/counted.h"

namespace paceline::server {
namespace {

constexpr const char* kNoMoreEvents = "; run.tensorboard: no more is written for TensorBoard in this run";

// The curve gone on with, or, where what is there is no curve any more, a new one: what a crash of the
// machine or a hand has done to a plot is no reason not to go on with the model.
Result<CurveWriter> curve_gone_on_with(const std::filesystem::path& run, Version version, const Log& log) {
  Result<CurveWriter> curve = CurveWriter::resume(run, version);
  if (curve.status().code() != StatusCode::kDataLoss) return curve;
  const std::filesystem::path file = run / "curve.csv";
  const std::filesystem::path broken = run / "curve.csv.broken";
  std::error_code error;
  std::filesystem::rename(file, broken, error);
  if (error) return Status(curve.status()).with_context("and it cannot be renamed: " + error.message());
  log.warn(curve.status().message() + "; the file is " + broken.string() + " now, and " + file.string() +
           " begins at version " + to_string(version));
  return CurveWriter::open(run);
}

}  // namespace

Result<RunRecord> RunRecord::open(const RunConfig& config, const Log& log) {
  PACELINE_ASSIGN_OR_RETURN(CurveWriter curve, CurveWriter::open(config.run.out));
  return RunRecord(config, std::move(curve), log);
}

Result<RunRecord> RunRecord::resume(const RunConfig& config, Saved saved, const Log& log) {
  PACELINE_ASSIGN_OR_RETURN(CurveWriter curve, curve_gone_on_with(config.run.out, saved.version, log));
  RunRecord record(config, std::move(curve), log);
  RunRecordState& state = saved.state;
  record.seconds_before_ = saved.seconds;
  record.generation_ = saved.generation;
  record.resumed_from_ = saved.version;
  record.switches_ = std::move(state.switches);
  record.churn_.resume(std::move(state.churn));
  record.staleness_.resume(std::move(state.staleness));
  if (record.batch_sizes_ && state.batch_sizes) record.batch_sizes_->resume(*std::move(state.batch_sizes));
  if (!state.loss_scales.empty()) record.loss_scales_ = std::move(state.loss_scales);
  record.newest_.train_loss = state.train_loss;
  record.newest_.train_accuracy = state.train_accuracy;
  record.newest_.test_accuracy = state.test_accuracy;
  record.newest_.lpr = state.lpr;
  // That which it goes on from is one more.
  record.checkpoints_before_ = {state.checkpoints + 1, state.checkpoints_failed};
  record.checkpoints_ = record.checkpoints_before_;
  return record;
}

RunRecordState RunRecord::state() const {
  RunRecordState state;
  state.switches = switches_;
  state.churn = churn_.so_far();
  state.staleness = staleness_.workers();
  if (batch_sizes_) state.batch_sizes = batch_sizes_->sizes();
  state.loss_scales = loss_scales_;
  state.train_loss = newest_.train_loss;
  state.train_accuracy = newest_.train_accuracy;
  state.test_accuracy = newest_.test_accuracy;
  state.lpr = newest_.lpr;
  if (checkpoints_) {
    state.checkpoints = checkpoints_->written;
    state.checkpoints_failed = checkpoints_->failed;
  }
  return state;
}

void RunRecord::reported(WorkerId worker, const LossScale& scale) {
  const Cluster cluster = config_->cluster.cluster();
  if (!loss_scales_.empty() && cluster.contains(worker)) loss_scales_[cluster.rank_of(worker).value] = scale;
}

LossScale RunRecord::loss_scale(WorkerId worker) const {
  const Cluster cluster = config_->cluster.cluster();
  if (loss_scales_.empty() || !cluster.contains(worker)) return {};
  return loss_scales_[cluster.rank_of(worker).value];
}

void RunRecord::checkpoints(std::int64_t written, std::int64_t failed) {
  checkpoints_ = {checkpoints_before_.written + written, checkpoints_before_.failed + failed};
}

RunRecord::RunRecord(const RunConfig& config, CurveWriter curve, const Log& log)
    : config_(&config),
      curve_(std::move(curve)),
      staleness_(config.cluster.cluster()),
      progress_(config.cluster.cluster()),
      reports_(config),
      log_(&log) {
  if (config.train.precision == Precision::kFp16) loss_scales_.resize(config.cluster.cluster().workers());
  if (config.train.sizing() == BatchSizing::kEqual) return;
  batch_sizes_.emplace(config.cluster.cluster(), config.train.round_samples(), config.train.rounds());
}

void RunRecord::begin(Ticks first_grant, Threshold threshold) {
  first_grant_ = first_grant;
  progress_.note(seconds_before_, {}, [](WorkerId) { return 0; });
  begin_events();
  if (config_->sync.stages.empty() || !switches_.empty()) return;
  switches_.push_back({name_of(config_->sync.stages.front().policy), Version(0), 0.0, threshold});
}

// Nor is that what TensorBoard shows cannot be: said once.
void RunRecord::begin_events() {
  if (!config_->run.tensorboard) return;
  if (resumed_from_) {
    const Status cut = cut_event_files(config_->run.out, *resumed_from_);
    if (!cut.is_ok()) log_->warn(cut.message() + "; TensorBoard may show what the run has taken back");
  }
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  Result<EventFile> file = EventFile::begin(config_->run.out, now.count() - seconds_before_, generation_,
                                            resumed_from_.value_or(kNoVersion));
  if (!file.is_ok()) return log_->warn(file.status().message() + kNoMoreEvents);
  events_ = std::make_shared<EventFile>(std::move(file).value());
}

double RunRecord::rate_to(Version version) const {
  const Version from = stepped_from(version);
  return shown_rate(*config_, from, stage_at(switches_, from));
}

// A curve that cannot be written is no reason to stop the training: it is said once, and the summary will say
// more.
void RunRecord::append(CurveRow row) {
  ++curve_rows_;
  row.learning_rate = rate_to(row.version);
  const Status status = curve_.append(row);
  if (!status.is_ok()) log_->error(status.message());
  if (!events_) return;
  if (const Status written = events_->append(row); !written.is_ok()) {
    log_->warn(written.message() + kNoMoreEvents);
    events_.reset();
  }
}

void RunRecord::window(const sync::WindowClosed& window, std::int64_t iterations, Ticks now) {
  if (window.lpr) newest_.lpr = window.lpr;
  CurveRow row{seconds(now), window.version, window.threshold};
  row.lpr = window.lpr;
  row.train_loss = window.loss_mean;
  row.train_accuracy = window.accuracy;
  row.iterations = iterations;
  note_trained(row);
  append(row);
}

// A report of an evaluation may be late: then a window's numbers are newer.
void RunRecord::note_trained(const CurveRow& row) {
  if (!row.train_loss || row.version <= trained_until_) return;
  trained_until_ = row.version;
  newest_.train_loss = row.train_loss;
  newest_.train_accuracy = row.train_accuracy;
}

void RunRecord::switched(const sync::PolicySwitched& action, Ticks now) {
  switches_.push_back({name_of(action.to), action.version, seconds(now), action.threshold_to});
}

void RunRecord::evaluation(Version version, const Moment& reached, const Metric& metric) {
  last_metric_ = metric;
  newest_.test_accuracy = accuracy_of(metric);
  newest_.test_loss = loss_of(metric);
  const Metric trained = reached.trained - std::exchange(trained_, reached.trained);
  CurveRow row{reached.seconds, version, reached.threshold};
  row.train_loss = loss_of(trained);
  row.train_accuracy = accuracy_of(trained);
  note_trained(row);
  row.test_accuracy = newest_.test_accuracy;
  row.test_loss = newest_.test_loss;
  row.iterations = reached.iterations;
  append(row);
}

std::function<Status()> RunRecord::writer(const sync::Engine& engine, const std::string& status,
                                          const std::string& reason) const {
  RunSummary summary = reports_.sums();
  summary.status = status;
  summary.reason = reason;
  summary.policy = name_of(config_->sync.policy);
  if (config_->exchange.kind == ExchangeKind::kAllreduce) summary.exchange = name_of(config_->exchange.kind);
  summary.nodes = config_->cluster.nodes;
  summary.threads_per_node = config_->cluster.threads_per_node;
  set_iterations(summary, engine, config_->train.local_steps);
  if (undone_ > 0 && status == "ok") summary.iterations_undone = undone_ * config_->train.local_steps;
  summary.switches = switches_;
  set_churn(summary, churn_.so_far());
  summary.generation = generation_;
  summary.resumed_from = resumed_from_;
  summary.checkpoints = checkpoints_;
  summary.stragglers = stragglers_;
  summary.wall_seconds = wall_seconds_;
  summary.final_version = engine.version();
  summary.final_threshold = engine.threshold();
  summary.max_grant_gap = engine.max_grant_gap();
  summary.max_clock_gap = engine.max_clock_gap();
  if (final_metric_ && final_metric_->samples > 0) {
    summary.test_accuracy = accuracy_of(*final_metric_);
    summary.test_loss = loss_of(*final_metric_);
  }
  std::vector<WorkerPhases> phases = reports_.phases();
  PhaseTotals merged;
  for (const WorkerPhases& worker : phases) merge(merged, worker.totals);
  set_phases(summary, merged);
  set_staleness(summary, staleness_.workers());
  if (batch_sizes_) summary.batch_sizes = batch_sizes_->sizes();
  return [out = config_->run.out, phases = std::move(phases), so_far = writer_so_far(),
          summary = std::move(summary), traced = traced_, events = events_, log = log_]() mutable {
    if (traced) summary.traced = *traced;
    summary.lines_dropped = log->lines_dropped();
    if (events) {
      const Status added = events->append(phases, summary.final_version, summary.wall_seconds);
      if (!added.is_ok()) log->warn(added.message() + kNoMoreEvents);
    }
    // Whatever of the others cannot be written: the summary says how the run went.
    Status first = phases.empty() ? Status::ok() : write_phases(out, phases);
    Status second = so_far();
    Status third = write_summary(out, summary);
    return !first.is_ok() ? first : !second.is_ok() ? second : third;
  };
}

std::function<Status()> RunRecord::writer_so_far(std::vector<WorkerTimes> times) const {
  return [out = config_->run.out, times = std::move(times), staleness = staleness_.workers(),
          progress = progress_.rows()] {
    const auto counted = [](const WorkerStaleness& worker) { return worker.clocks.count > 0; };
    const bool any = std::any_of(staleness.begin(), staleness.end(), counted);
    Status first = any ? write_staleness(out, staleness) : Status::ok();
    Status second = progress.empty() ? Status::ok() : write_progress(out, progress);
    Status third = times.empty() ? Status::ok() : write_phases_so_far(out, times);
    return !first.is_ok() ? first : !second.is_ok() ? second : third;
  };
}

}  // namespace paceline::server
