// A run as `paceline report` has read it, and what its tables say of it. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/report/phases_csv.h"
#include "common/report/run_summary.h"

namespace paceline {

struct FinishedRun {
  std::string name;  // as it was given on the command line
  // Of a run that has none (`finished` is false): what config.yaml, curve.csv and phases.csv say, with the
  // status "unfinished" or "unreadable".
  RunSummary summary;
  std::vector<WorkerPhases> workers;
  bool finished = true;
  // False where nothing says them, and the summary's are only what it begins with:
  bool has_config = true;                 // policy, nodes, threads
  bool has_progress = true;               // version, threshold, wall
  bool has_workers = true;                // which workers reported
  std::vector<std::string> missing = {};  // "no curve.csv", a line for each thing that the directory lacks
};

// Seconds for each worker that reported; none where nothing says them.
struct Times {
  std::optional<double> barrier;  // BARRIER
  std::optional<double> network;  // PS_APPLY_GRADS + STEP + PS_PARAM
  std::optional<double> compute;  // COMPUTE_GRADS
  std::optional<double> total;    // the wall of the run
};
Times times_of(const FinishedRun& run);

// The phases of a summary are sums over the workers that reported; those of a lost node did not. None where
// nobody knows how many those were: the phases of a run that lost nodes, or has no summary, are missing.
std::optional<double> per_worker(const FinishedRun& run, double total_seconds);

// The times of a run that failed, was stopped, overran its emulation, lost nodes, is unfinished or lacks
// phases of workers are not its policy's.
bool is_comparable(const FinishedRun& run);

// What is wrong with a run or its directory; empty: nothing.
std::vector<std::string> warnings_of(const FinishedRun& run);
// Why not to trust the times of a run: those, and that it was simulated; empty when there is no reason.
std::vector<std::string> caveats_of(const FinishedRun& run);

}  // namespace paceline
