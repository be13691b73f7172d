// Groups: which runs are of one policy, and which cannot be compared at all. Runs are one group if their
// effective configurations differ in nothing but the seed and what no result depends on: name, folder, log
// level, and where the sockets, the keys and the data are. A group is named by its policy and thresholds:
//
//   bsp    asp    ssp(3)    dtssp(3, 3-10)
//
// and, where that does not tell two groups apart, by the keys in which those differ: `ssp(3)
// sync.apply=eager`.
//
// Runs are compared only if they were to do the same work on the same cluster. These must agree: model, data,
// mini-batch, iterations, nodes and threads; emulate.*, but for the cores of the machine; for simulated runs
// all of simulate.* and the trace. And all runs are real, or all are simulated. Which data a path held is not
// known: paths that differ are listed. The time to an accuracy is asked of runs of any length.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/report/counted.h"
#include "common/report/curve.h"
#include "common/report/run_summary.h"
#include "common/report/staleness.h"
#include "common/status.h"

namespace paceline {

// A finished run, as its directory says it.
struct ComparedRun {
  std::string name;  // as it was given on the command line
  RunSummary summary;
  std::uint64_t seed = 0;
  std::int64_t total_iterations = 0;
  std::optional<double> target_accuracy = {};  // run.target_accuracy: ends a run at one evaluation
  Share share = Share::kEven;                  // train.share
  std::vector<std::pair<std::string, std::string>> configuration;  // effective_values()
  std::vector<CurveRow> curve;
  std::vector<WorkerStaleness> staleness;  // empty: not recorded
};

// Errors: those of read_finished(); kInvalidArgument or kDataLoss, naming the file, a configuration or curve
// that cannot be read.
Result<ComparedRun> read_compared(const std::string& folder);

struct RunGroup {
  std::string name;
  // Keys in which the groups differ, with this one's values, but for policy and thresholds; and data.path.
  std::vector<std::pair<std::string, std::string>> differing;
  std::vector<const ComparedRun*> runs;  // seeds ascending, each once
};

// Of the runs' lengths, train.total_iterations.
enum class Lengths { kSame, kAny };

// In the order in which their first runs are given; `runs` outlives them. Errors: kInvalidArgument, naming
// the two runs: work or a cluster that differs, a real and a simulated run, one seed twice.
Result<std::vector<RunGroup>> group_runs(std::span<const ComparedRun> runs, Lengths lengths);

// Whether the time to an accuracy is known as finely of all: the mean of three evaluations is there later
// where they are further apart. Errors: kInvalidArgument, naming the key and the two runs.
[[nodiscard]] Status check_same_evaluations(std::span<const ComparedRun> runs, AccuracyOf accuracy);

}  // namespace paceline
