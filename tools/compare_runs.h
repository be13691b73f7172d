// Comparing policies: what `paceline report --compare` shows, as numbers. Two tables of time that are never
// mixed up, because a policy may do its iterations fast and learn little in each:
//
//   time at fixed iterations    the wall of a run that did all its iterations
//   time to accuracy            until the mean of three successive evaluations reaches the target: tests, or,
//                               where no run has any (simulated in timing mode), training accuracies
//
// beside the final accuracy, and, for each group, where the time went and how old parameters were. A run that
// is not "ok", lost nodes, was resumed, did not do all its iterations, was not evaluated or never reached the target
// has no number in the table that needs it: it is censored, named, and keeps its group from being called better
// (common/statistics/verdict.h). Under bsp the accuracy of a resumed one counts. Of runs of several lengths the time to
// an accuracy is the only table.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/report/staleness.h"
#include "common/statistics/verdict.h"
#include "common/timing/phases.h"
#include "tools/compare_groups.h"

namespace paceline {

// Accuracies this close are as good as equal: one point.
inline constexpr double kAccuracyMarginPoints = 1.0;

// One number of each run, compared. Sizes: as many samples and means as groups.
struct ComparedTable {
  std::string title;  // "time at 10000 iterations"
  std::string key;    // in JSON: "time", "time_to_accuracy", "accuracy"
  std::string unit;   // "s", "%"
  statistics::Better better = statistics::Better::kSmaller;
  std::vector<statistics::Sample> samples = {};
  std::vector<statistics::Estimate> means = {};
  std::vector<statistics::Comparison> comparisons = {};
  std::optional<std::size_t> winner = {};
  std::vector<std::string> censored = {};  // "runs/b: 512 of 1000 iterations"
};

// (second - first) / first over the seeds that both have, 0.1 is 10 % more; none for a table that is in per
// cent, where there are no such seeds, and of 0.
std::optional<double> relative_change(const ComparedTable& table, const statistics::Comparison& pair);

// Seconds for each worker, means over a group's runs that count in the first table; none: none does.
struct TimeSplit {
  std::array<double, kPhaseCount> phases{};
  double unaccounted = 0.0;

  double operator[](Phase p) const { return phases[static_cast<std::size_t>(p)]; }
  double compute() const { return (*this)[Phase::kBatch] + (*this)[Phase::kComputeGrads]; }
  // Locally: own gradients, and parameters on their last way into the thread cache.
  double apply() const {
    return (*this)[Phase::kApplyGrads] + (*this)[Phase::kPCacheParam] + (*this)[Phase::kTCacheParam];
  }
  double wait() const { return (*this)[Phase::kBarrier]; }
  // With what the servers do with it.
  double network() const {
    return (*this)[Phase::kPsApplyGrads] + (*this)[Phase::kStep] + (*this)[Phase::kPsParam];
  }
  double total() const { return compute() + apply() + wait() + network() + unaccounted; }
};

// All workers of a group's runs that count as in TimeSplit; mean and maximum of the numbers themselves, the
// histogram of their buckets.
struct GroupStaleness {
  StalenessCounts clocks;
  StalenessCounts gradients;
};

struct PolicyComparison {
  bool simulated = false;
  bool of_one_length = true;
  std::vector<RunGroup> groups;
  std::vector<ComparedTable> tables;
  std::vector<std::optional<TimeSplit>> splits;  // by group
  std::vector<GroupStaleness> staleness;         // by group
};

// `target`: of the time to accuracy, 0..1; without one there is no such table, nor one of accuracies where no
// run was evaluated, and all runs are of one length. `runs`, one or more, outlive the result. Errors: those of
// group_runs() and, with a target, of check_same_evaluations().
Result<PolicyComparison> compare_runs(std::span<const ComparedRun> runs, std::optional<double> target);

}  // namespace paceline
