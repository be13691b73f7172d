#include "simulate/run_record.h"

#include <utility>

#include "common/config/names.h"
#include "common/params/rates.h"
#include "common/report/counted.h"

namespace paceline::simulate {

RunRecord::RunRecord(const Plan& plan, bool trains)
    : plan_(plan),
      knows_metric_(trains || plan.metric != nullptr),
      staleness_(plan.cluster),
      progress_(plan.cluster) {
  const TrainSection& train = plan.config.train;
  if (train.sizing() != BatchSizing::kEqual) {
    batch_sizes_.emplace(plan.cluster, train.round_samples(), train.rounds());
  }
}

void RunRecord::begin(Threshold threshold, Ticks now) {
  first_grant_ = now;
  progress_.note(0.0, {}, [](WorkerId) { return 0; });
  const std::vector<PolicyStage>& stages = plan_.engine.policy.stages;
  if (stages.empty()) return;
  summary_.switches.push_back({name_of(stages.front().policy), Version(0), 0.0, threshold});
}

void RunRecord::add(const sync::Grant& grant) {
  if (batch_sizes_) batch_sizes_->add(grant);
}

void RunRecord::add(const sync::Apply& decision) {
  staleness_.add(decision);
  applied_ = decision.revision_after;
}

void RunRecord::add(const sync::WindowClosed& window, Ticks now) {
  CurveRow& row = curve_[add_row(now, window.version, window.threshold, applied_.value)];
  if (!knows_metric_) return;
  row.lpr = window.lpr;
  row.train_loss = window.loss_mean;
  row.train_accuracy = window.accuracy;
}

void RunRecord::add(const sync::PolicySwitched& change, Ticks now) {
  summary_.switches.push_back({name_of(change.to), change.version, seconds(now), change.threshold_to});
}

void RunRecord::add(const sync::AllFinished& finished, Ticks now) {
  summary_.wall_seconds = seconds(now);
  if (finished.reason == sync::EndReason::kNobodyLeft) fail("every node was lost before its share was done");
}

void RunRecord::fail(std::string why) {
  summary_.status = "failed";
  summary_.reason = std::move(why);
}

std::size_t RunRecord::add_row(Ticks now, Version version, Threshold threshold, std::int64_t gradients) {
  curve_.push_back({seconds(now), version, threshold});
  curve_.back().iterations = plan_.config.train.iterations_in(gradients);
  const Version from = stepped_from(version);
  curve_.back().learning_rate = shown_rate(plan_.config, from, stage_at(summary_.switches, from));
  return curve_.size() - 1;
}

std::size_t RunRecord::add_last_row(Version version, Threshold threshold, std::int64_t gradients) {
  const std::size_t number = add_row(first_grant_, version, threshold, gradients);
  curve_[number].seconds = summary_.wall_seconds;
  return number;
}

Outcome RunRecord::finish(const sync::Engine& engine, std::vector<WorkerPhases> phases,
                          const Worker::Totals& totals) {
  summary_.policy = name_of(plan_.config.sync.policy);
  summary_.nodes = plan_.cluster.nodes;
  summary_.threads_per_node = plan_.cluster.threads_per_node;
  set_churn(summary_, churn_.so_far());
  set_iterations(summary_, engine, plan_.config.train.local_steps);
  summary_.final_version = engine.version();
  summary_.final_threshold = engine.threshold();
  summary_.max_grant_gap = engine.max_grant_gap();
  summary_.max_clock_gap = engine.max_clock_gap();
  summary_.parameter_reads = totals.parameter_reads;
  summary_.server_reads = totals.server_reads;
  summary_.overruns = totals.overruns;
  PhaseTotals merged;
  for (const WorkerPhases& worker : phases) merge(merged, worker.totals);
  set_phases(summary_, merged);
  if (summary_.status == "ok" && too_many_overruns(totals.overruns, totals.steps)) {
    summary_.status = "invalid";
    summary_.reason = std::to_string(totals.overruns) + " of " + std::to_string(totals.steps) +
                      " emulated steps began to compute when they were to be done; raise "
                      "emulate.base_step, or lower simulate.network.latency and simulate.costs";
  }
  Outcome out;
  out.phases = std::move(phases);
  out.staleness = staleness_.workers();
  out.progress = progress_.rows();
  set_staleness(summary_, out.staleness);
  if (batch_sizes_) summary_.batch_sizes = batch_sizes_->sizes();
  out.summary = std::move(summary_);
  out.curve = std::move(curve_);
  return out;
}

}  // namespace paceline::simulate
