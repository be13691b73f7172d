#include "sweep/row.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "common/config/engine_config.h"
#include "common/config/load.h"
#include "common/report/counted.h"
#include "common/statistics/time_to_target.h"
#include "common/sync/policy.h"

namespace paceline::sweep {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double as_number(Threshold threshold) {
  return threshold.is_infinite() ? std::numeric_limits<double>::infinity()
                                 : static_cast<double>(threshold.value());
}

double last(std::span<const CurveRow> curve, std::optional<double> CurveRow::* column) {
  for (std::size_t i = curve.size(); i-- > 0;) {
    if (curve[i].*column) return *(curve[i].*column);
  }
  return kNone;
}

// Of the last LPR window; where none has ended, of what was reported between the last evaluations.
double last_trained(std::span<const CurveRow> curve, std::optional<double> CurveRow::* column) {
  std::vector<CurveRow> windows(curve.begin(), curve.end());
  std::erase_if(windows, [](const CurveRow& row) { return row.test_accuracy.has_value(); });
  const double of_window = last(windows, column);
  return std::isnan(of_window) ? last(curve, column) : of_window;
}

// The thresholds that a policy began with count as rows: a switch changes the threshold where no window ends.
std::vector<CurveRow> with_switches(std::vector<CurveRow> curve, const RunSummary& summary) {
  for (const PolicyChange& change : summary.switches) {
    curve.push_back({change.seconds, change.version, change.threshold});
  }
  std::stable_sort(curve.begin(), curve.end(),
                   [](const CurveRow& a, const CurveRow& b) { return a.seconds < b.seconds; });
  return curve;
}

}  // namespace

double seconds_to_target(std::span<const CurveRow> curve, double target) {
  return statistics::time_to_target(evaluations(curve, accuracy_in(curve)), target).value_or(kNone);
}

double mean_threshold(Threshold initial, std::span<const CurveRow> curve, double wall_seconds) {
  double sum = 0.0;
  double since = 0.0;
  Threshold now = initial;
  const auto until = [&](double seconds) {
    const double end = std::clamp(seconds, since, std::max(since, wall_seconds));
    if (end > since) sum += as_number(now) * (end - since);
    since = end;
  };
  for (const CurveRow& row : curve) {
    until(row.seconds);
    now = row.threshold;
  }
  until(wall_seconds);
  return wall_seconds > 0.0 ? sum / wall_seconds : as_number(now);
}

Result<Row> read_row(const std::filesystem::path& run, std::span<const std::string> keys,
                     std::optional<double> target) {
  PACELINE_ASSIGN_OR_RETURN(const RunConfig config,
                            load_config((run / "config.yaml").string(), {}, LoadFor::kReading));
  PACELINE_ASSIGN_OR_RETURN(const RunSummary s, read_summary(run));
  PACELINE_ASSIGN_OR_RETURN(const std::vector<CurveRow> curve, read_curve(run));
  Row row;
  for (const std::string& key : keys) row.settings.push_back(value_of(config, key).value());
  row.status = s.status;
  row.seed = config.run.seed;
  row.faultless = fault_of(s).empty();
  row.complete = row.faultless && unfinished(s, config.train.total_iterations, config.train.share).empty();
  row.values.fill(kNone);
  const auto set = [&row](std::string_view name, double value) { row.values[quantity(name)] = value; };
  const auto each = [&s](Phase phase) { return s[phase].total_seconds / static_cast<double>(s.workers()); };
  set("iterations", static_cast<double>(s.iterations));
  set("wall_s", s.wall_seconds);
  if (s.wall_seconds > 0.0) set("iterations_per_s", static_cast<double>(s.iterations) / s.wall_seconds);
  set("barrier_s", each(Phase::kBarrier));
  set("network_s", each(Phase::kPsApplyGrads) + each(Phase::kStep) + each(Phase::kPsParam));
  set("compute_s", each(Phase::kComputeGrads));
  set("batch_s", each(Phase::kBatch));
  set("apply_grads_s", each(Phase::kApplyGrads));
  set("ps_apply_grads_s", each(Phase::kPsApplyGrads));
  set("step_s", each(Phase::kStep));
  set("ps_param_s", each(Phase::kPsParam));
  set("p_cache_param_s", each(Phase::kPCacheParam));
  set("t_cache_param_s", each(Phase::kTCacheParam));
  set("pulls", static_cast<double>(s.pulls));
  set("parameter_reads", static_cast<double>(s.parameter_reads));
  set("server_reads", static_cast<double>(s.server_reads));
  set("bytes_pushed", static_cast<double>(s.bytes_pushed));
  set("bytes_pulled", static_cast<double>(s.bytes_pulled));
  set("final_version", static_cast<double>(s.final_version.value));
  set("final_threshold", as_number(s.final_threshold));
  const Threshold initial = sync::make_policy(engine_config(config).policy)->threshold();
  set("mean_threshold", mean_threshold(initial, with_switches(curve, s), s.wall_seconds));
  if (s.staleness) {
    set("mean_staleness", s.staleness->clocks.mean);
    set("max_staleness", static_cast<double>(s.staleness->clocks.max));
  }
  set("max_grant_gap", static_cast<double>(s.max_grant_gap.value));
  set("lost_nodes", static_cast<double>(s.lost_nodes));
  set("dropped", static_cast<double>(s.dropped));
  set("train_accuracy", last_trained(curve, &CurveRow::train_accuracy));
  set("train_loss", last_trained(curve, &CurveRow::train_loss));
  set("test_accuracy", s.test_accuracy.value_or(last(curve, &CurveRow::test_accuracy)));
  if (target) set("s_to_target", seconds_to_target(curve, *target));
  return row;
}

}  // namespace paceline::sweep
