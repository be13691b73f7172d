#include "server/authority/report_totals.h"

#include <algorithm>
#include <cstddef>

#include "common/instant.h"
#include "common/network/network.h"
#include "common/network/stages.h"

namespace paceline::server {

ReportTotals::ReportTotals(const RunConfig& config) : config_(&config) {
  if (config.exchange.kind == ExchangeKind::kAllreduce) sums_.bytes_reduced = 0;
}

void ReportTotals::add(const wire::NodeReport& report) {
  reported_.insert(report.node);
  for (const wire::WorkerReport& worker : report.workers) {
    phases_.push_back({worker.worker, worker.phases});
    steps_ += worker.iterations + worker.skipped;
    sums_.overruns += worker.overruns;
    sums_.bytes_pushed_early += worker.bytes_early;
  }
  sums_.parameter_reads += report.parameter_reads;
  sums_.server_reads += report.server_reads;
  add_reduced({.reduced = report.bytes_reduced, .reducing = report.reducing});
  if (sums_.bytes_reduced) add_algorithms(report);
  // Where the nodes have the same data, what one has found others find again.
  sums_.samples_left_out = config_->data.parts == DataParts::kFixed
                               ? sums_.samples_left_out + report.samples_left_out
                               : std::max(sums_.samples_left_out, report.samples_left_out);
  add_stage(report.node, report.stage);
}

void ReportTotals::add_reduced(const Traffic& reduced) {
  if (!sums_.bytes_reduced) return;
  *sums_.bytes_reduced += reduced.reduced;
  reduced_ += reduced;
  sums_.bus_bytes_per_second = reduced_.bytes_per_second_reducing();
}

// Those that sum together have chosen alike: without stages all.
void ReportTotals::add_algorithms(const wire::NodeReport& report) {
  const std::uint32_t stages = config_->pipeline.stages;
  algorithms_.try_emplace(report.node.value % stages, report.algorithms);
  sums_.algorithms.clear();
  for (const auto& [stage, lines] : algorithms_) {
    const std::string of = stages > 1 ? "stage " + std::to_string(stage) + ", " : "";
    for (const std::string& line : lines) sums_.algorithms.push_back(of + line);
  }
}

// Whatever a later resume is cut by, these nodes' times are of this cut. None of a loop's own model.
void ReportTotals::add_cut(PipelineSummary& pipeline) const {
  if (cut_by_loop(config_->pipeline.balance)) return;
  const auto network = build_network(*config_);
  if (!network.is_ok()) return;  // a file that says it is gone by now
  const auto stages = stages_of_run(*config_, *network);
  if (!stages.is_ok()) return;
  for (const StageSpec& stage : *stages) {
    pipeline.layers.push_back(static_cast<std::int64_t>(stage.last - stage.first));
    pipeline.parameters.push_back(stage.parameters.size());
  }
}

// Nodes in a row are the stages of a group.
void ReportTotals::add_stage(NodeId node, const StageReport& stage) {
  const PipelineSection& pipeline = config_->pipeline;
  if (!pipeline.enabled()) return;
  if (!sums_.pipeline) {
    sums_.pipeline = {pipeline.stages, pipeline.micro_batches, 0.0,
                      std::vector<std::int64_t>(pipeline.stages, 0)};
    const std::vector<double> none(pipeline.stages, 0.0);
    sums_.pipeline->busy_seconds = none;
    sums_.pipeline->idle_for_previous_seconds = none;
    sums_.pipeline->idle_for_next_seconds = none;
    sums_.pipeline->chunks = pipeline.chunks_of_stage();
    add_cut(*sums_.pipeline);
  }
  const std::size_t of = node.value % pipeline.stages;
  sums_.pipeline->busy_seconds[of] += to_seconds(stage.busy);
  sums_.pipeline->idle_for_previous_seconds[of] += to_seconds(stage.idle_for_previous);
  sums_.pipeline->idle_for_next_seconds[of] += to_seconds(stage.idle - stage.idle_for_previous);
  std::int64_t& peak = sums_.pipeline->peak_activation_bytes[of];
  peak = std::max(peak, stage.activation_bytes);
  stages_busy_ += stage.busy;
  // A group's step lasts as long as that of its first stage, which begins it and ends it.
  if (node.value % pipeline.stages == 0) stages_time_ += pipeline.stages * (stage.busy + stage.idle);
  const double all = to_seconds(stages_time_);
  if (all > 0) sums_.pipeline->bubble_share = std::max(0.0, 1.0 - to_seconds(stages_busy_) / all);
}

void ReportTotals::add(const wire::ShardReport& report) {
  sums_.bytes_pushed += report.bytes_pushed;
  sums_.bytes_pulled += report.bytes_pulled;
  sums_.bytes_shared += report.bytes_shared;
  sums_.pulls += report.pulls;
  sums_.malformed += report.malformed;
  sums_.reconnects += report.reconnects;
}

std::string ReportTotals::invalid_because() const {
  if (!too_many_overruns(sums_.overruns, steps_)) return "";
  return std::to_string(sums_.overruns) + " of " + std::to_string(steps_) +
         " emulated steps took longer than emulate.base_step allows; raise it, or use fewer workers";
}

std::vector<WorkerPhases> ReportTotals::phases() const {
  std::vector<WorkerPhases> phases = phases_;
  std::sort(phases.begin(), phases.end(), [](const auto& a, const auto& b) { return a.worker < b.worker; });
  return phases;
}

}  // namespace paceline::server
