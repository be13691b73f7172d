#include "tools/compare_runs.h"

#include <algorithm>
#include <cstdio>

#include "common/statistics/time_to_target.h"

namespace paceline {
namespace {

using statistics::Better;

// A run's number, or why it has none.
struct Value {
  std::optional<double> number;
  std::string missing;
};

std::string percent_text(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f %%", 100.0 * share);
  return text;
}

// Why a run says nothing about its policy; empty: it does.
std::string fault(const RunSummary& s) {
  if (s.status != "ok") return s.status + (s.reason.empty() ? "" : " (" + s.reason + ")");
  return s.lost_nodes > 0 ? std::to_string(s.lost_nodes) + " nodes lost" : "";
}

std::string unfinished(const ComparedRun& run) {
  const std::int64_t done = run.summary.iterations + run.summary.skipped;
  if (done >= run.total_iterations) return "";
  return std::to_string(done) + " of " + std::to_string(run.total_iterations) + " iterations";
}

Value wall(const ComparedRun& run) {
  if (const std::string why = unfinished(run); !why.empty()) return {{}, why};
  return {run.summary.wall_seconds, ""};
}

Value accuracy(const ComparedRun& run) {
  if (const std::string why = unfinished(run); !why.empty()) return {{}, why};
  if (!run.summary.test_accuracy) return {{}, "not evaluated"};
  return {100.0 * *run.summary.test_accuracy, ""};
}

// In the order of versions, each once: the final model's may be the last one's again.
std::vector<statistics::Evaluation> evaluations(const ComparedRun& run) {
  std::vector<CurveRow> rows;
  std::copy_if(run.curve.begin(), run.curve.end(), std::back_inserter(rows),
               [](const CurveRow& row) { return row.test_accuracy.has_value(); });
  std::stable_sort(rows.begin(), rows.end(),
                   [](const CurveRow& a, const CurveRow& b) { return a.version < b.version; });
  std::vector<statistics::Evaluation> all;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i > 0 && rows[i].version == rows[i - 1].version) continue;
    all.push_back({rows[i].seconds, *rows[i].test_accuracy});
  }
  return all;
}

Value seconds_to(const ComparedRun& run, double target) {
  const std::vector<statistics::Evaluation> all = evaluations(run);
  if (const auto reached = statistics::time_to_target(all, target)) return {*reached, ""};
  if (all.size() < statistics::kEvaluationsAveraged) {
    return {{}, std::to_string(all.size()) + " evaluations, expected 3 or more (train.eval_every_clocks)"};
  }
  double best = 0.0;
  for (const statistics::Evaluation& e : all) best = std::max(best, e.accuracy);
  return {{}, "never at " + percent_text(target) + ", at most " + percent_text(best) + " at once"};
}

template <typename Number>
ComparedTable table_of(const std::vector<RunGroup>& groups, ComparedTable table, std::optional<double> margin,
                       const Number& number) {
  for (const RunGroup& group : groups) {
    statistics::Sample sample;
    for (const ComparedRun* run : group.runs) {
      Value value{{}, fault(run->summary)};
      if (value.missing.empty()) value = number(*run);
      if (!value.number) table.censored.push_back(run->name + ": " + value.missing);
      sample.push_back({run->seed, value.number});
    }
    table.means.push_back(statistics::estimate(statistics::values_of(sample)));
    table.samples.push_back(std::move(sample));
  }
  table.comparisons = statistics::compare_pairs(table.samples, table.better, margin);
  table.winner = statistics::winner(groups.size(), table.comparisons);
  return table;
}

std::optional<TimeSplit> split_of(const RunGroup& group) {
  TimeSplit split;
  double runs = 0.0;
  for (const ComparedRun* run : group.runs) {
    if (fault(run->summary).empty() && unfinished(*run).empty()) ++runs;
  }
  if (runs == 0.0) return std::nullopt;
  for (const ComparedRun* run : group.runs) {
    if (!fault(run->summary).empty() || !unfinished(*run).empty()) continue;
    const double share = 1.0 / (runs * static_cast<double>(run->summary.workers()));
    for (std::size_t i = 0; i < kPhaseCount; ++i) {
      split.phases[i] += run->summary.phases[i].total_seconds * share;
    }
    split.unaccounted += run->summary.unaccounted_seconds * share;
  }
  return split;
}

GroupStaleness staleness_of(const RunGroup& group) {
  GroupStaleness all;
  for (const ComparedRun* run : group.runs) {
    for (const WorkerStaleness& worker : run->staleness) {
      merge(all.clocks, worker.clocks);
      merge(all.gradients, worker.gradients);
    }
  }
  return all;
}

}  // namespace

Result<PolicyComparison> compare_runs(std::span<const ComparedRun> runs, std::optional<double> target) {
  PACELINE_ASSERT(!runs.empty(), "nothing to compare");
  PolicyComparison all;
  PACELINE_ASSIGN_OR_RETURN(all.groups, group_runs(runs));
  all.simulated = runs.front().summary.simulated_seed.has_value();
  ComparedTable time{"time at " + std::to_string(runs.front().total_iterations) + " iterations", "time", "s"};
  all.tables.push_back(table_of(all.groups, std::move(time), {}, wall));
  if (target) {
    ComparedTable reached{"time to test accuracy " + percent_text(*target), "time_to_accuracy", "s"};
    all.tables.push_back(table_of(all.groups, std::move(reached), {},
                                  [&](const ComparedRun& run) { return seconds_to(run, *target); }));
  }
  const bool evaluated = std::any_of(
      runs.begin(), runs.end(), [](const ComparedRun& run) { return run.summary.test_accuracy.has_value(); });
  if (evaluated) {
    ComparedTable final{"final test accuracy", "accuracy", "%", Better::kLarger};
    all.tables.push_back(table_of(all.groups, std::move(final), kAccuracyMarginPoints, accuracy));
  }
  for (const RunGroup& group : all.groups) {
    all.splits.push_back(split_of(group));
    all.staleness.push_back(staleness_of(group));
  }
  return all;
}

}  // namespace paceline
