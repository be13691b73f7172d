#include "tools/compare_runs.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

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

Value wall(const ComparedRun& run) {
  if (const std::string why = fault_of(run.summary); !why.empty()) return {{}, why};
  if (const std::string why = unfinished(run.summary, run.total_iterations, run.share); !why.empty())
    return {{}, why};
  return {run.summary.wall_seconds, ""};
}

Value accuracy(const ComparedRun& run) {
  if (const std::string why = fault_of_learning(run.summary); !why.empty()) return {{}, why};
  if (const std::string why = unfinished(run.summary, run.total_iterations, run.share); !why.empty())
    return {{}, why};
  if (!run.summary.test_accuracy) return {{}, "not evaluated"};
  return {100.0 * *run.summary.test_accuracy, ""};
}

std::string too_few(const ComparedRun& run, AccuracyOf kind, std::size_t found) {
  const std::string text = std::to_string(found);
  if (kind == AccuracyOf::kTest) {
    return text + " evaluations, expected 3 or more (train.eval_every_clocks)";
  }
  if (run.summary.simulated_seed) {
    return text + " windows of training accuracy, expected 3 or more (timing mode evaluates nothing: " +
           "simulate.metric, sync.lpr.window_clocks)";
  }
  return text + " windows of training accuracy, expected 3 or more (sync.lpr.window_clocks), or tests " +
         "(train.eval_every_clocks)";
}

Value seconds_to(const ComparedRun& run, double target, AccuracyOf kind) {
  if (const std::string why = fault_of(run.summary); !why.empty()) return {{}, why};
  const std::vector<statistics::Evaluation> all = evaluations(run.curve, kind);
  if (const auto reached = statistics::time_to_target(all, target)) return {*reached, ""};
  if (all.size() < statistics::kEvaluationsAveraged) return {{}, too_few(run, kind, all.size())};
  double best = 0.0;
  for (const statistics::Evaluation& e : all) best = std::max(best, e.accuracy);
  const std::string never = percent_text(best) + " at once";
  if (run.target_accuracy && !unfinished(run.summary, run.total_iterations, run.share).empty()) {
    return {{},
            "ended by run.target_accuracy at the first single evaluation of " +
                percent_text(*run.target_accuracy) + " (" + never + "), expected the mean of three at " +
                percent_text(target) + "; run without it"};
  }
  return {{},
          "the mean of three evaluations was never at " + percent_text(target) +
              ", a single one at most at " + percent_text(best)};
}

template <typename Number>
ComparedTable table_of(const std::vector<RunGroup>& groups, ComparedTable table, std::optional<double> margin,
                       const Number& number) {
  for (const RunGroup& group : groups) {
    statistics::Sample sample;
    for (const ComparedRun* run : group.runs) {
      const Value value = number(*run);
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

bool counts(const ComparedRun& run) {
  return fault_of(run.summary).empty() && unfinished(run.summary, run.total_iterations, run.share).empty();
}

std::optional<TimeSplit> split_of(const RunGroup& group) {
  TimeSplit split;
  const auto runs = static_cast<double>(std::count_if(group.runs.begin(), group.runs.end(),
                                                      [](const ComparedRun* run) { return counts(*run); }));
  if (runs == 0.0) return std::nullopt;
  for (const ComparedRun* run : group.runs) {
    if (!counts(*run)) continue;
    const double share = 1.0 / (runs * static_cast<double>(run->summary.workers()));
    for (std::size_t i = 0; i < kPhaseCount; ++i) {
      split.phases[i] += run->summary.phases[i].total_seconds * share;
    }
    split.unaccounted += run->summary.unaccounted_seconds * share;
  }
  return split;
}

// The histograms of the file, with the mean and the maximum that the summary has of the numbers themselves.
void add(StalenessCounts& all, const std::vector<WorkerStaleness>& workers,
         StalenessCounts WorkerStaleness::* unit, const StalenessSum& exact) {
  StalenessCounts run;
  for (const WorkerStaleness& worker : workers) merge(run, worker.*unit);
  run.sum = std::llround(exact.mean * static_cast<double>(run.count));
  run.max = exact.max;
  merge(all, run);
}

GroupStaleness staleness_of(const RunGroup& group) {
  GroupStaleness all;
  for (const ComparedRun* run : group.runs) {
    const std::optional<StalenessSums>& exact = run->summary.staleness;
    if (!counts(*run) || !exact) continue;
    add(all.clocks, run->staleness, &WorkerStaleness::clocks, exact->clocks);
    add(all.gradients, run->staleness, &WorkerStaleness::gradients, exact->gradients);
  }
  return all;
}

// "time to test accuracy 80.00 %", or to training accuracy where no run was tested on its way.
Result<ComparedTable> time_to_accuracy(std::span<const ComparedRun> runs, const std::vector<RunGroup>& groups,
                                       double target) {
  const bool tested = std::any_of(runs.begin(), runs.end(), [](const ComparedRun& run) {
    return accuracy_in(run.curve) == AccuracyOf::kTest;
  });
  const AccuracyOf kind = tested ? AccuracyOf::kTest : AccuracyOf::kTraining;
  PACELINE_RETURN_IF_ERROR(check_same_evaluations(runs, kind));
  const std::string of = tested ? "test" : "training";
  ComparedTable reached{"time to " + of + " accuracy " + percent_text(target), "time_to_accuracy", "s"};
  return table_of(groups, std::move(reached), {},
                  [&](const ComparedRun& run) { return seconds_to(run, target, kind); });
}

}  // namespace

std::optional<double> relative_change(const ComparedTable& table, const statistics::Comparison& pair) {
  if (table.better != Better::kSmaller || pair.difference.n == 0 || pair.first_mean <= 0.0)
    return std::nullopt;
  return pair.difference.mean / pair.first_mean;
}

Result<PolicyComparison> compare_runs(std::span<const ComparedRun> runs, std::optional<double> target) {
  PACELINE_ASSERT(!runs.empty(), "nothing to compare");
  PolicyComparison all;
  PACELINE_ASSIGN_OR_RETURN(all.groups, group_runs(runs, target ? Lengths::kAny : Lengths::kSame));
  all.simulated = runs.front().summary.simulated_seed.has_value();
  const std::int64_t length = runs.front().total_iterations;
  all.of_one_length = std::all_of(
      runs.begin(), runs.end(), [length](const ComparedRun& run) { return run.total_iterations == length; });
  if (all.of_one_length) {
    ComparedTable time{"time at " + std::to_string(length) + " iterations", "time", "s"};
    all.tables.push_back(table_of(all.groups, std::move(time), {}, wall));
  }
  if (target) {
    PACELINE_ASSIGN_OR_RETURN(ComparedTable reached, time_to_accuracy(runs, all.groups, *target));
    all.tables.push_back(std::move(reached));
  }
  const bool evaluated = std::any_of(
      runs.begin(), runs.end(), [](const ComparedRun& run) { return run.summary.test_accuracy.has_value(); });
  if (evaluated && all.of_one_length) {
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
