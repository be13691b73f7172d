// A run as `paceline report` has read it, and what its tables say of it. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/report/phases_csv.h"
#include "common/report/run_summary.h"

namespace paceline {

struct FinishedRun {
  std::string name;  // as it was given on the command line
  // Of a run that has none (`finished` is false): what config.yaml, curve.csv and phases.csv say, with the
  // status "unfinished" or "unreadable"; sums that they do not have are 0.
  RunSummary summary;
  std::vector<WorkerPhases> workers;
  bool finished = true;
  std::vector<std::string> missing = {};  // "no curve.csv", a line for each thing that the directory lacks
};

// Seconds for each worker that reported.
struct Times {
  double barrier;  // BARRIER
  double network;  // PS_APPLY_GRADS + STEP + PS_PARAM
  double compute;  // COMPUTE_GRADS
  double total;    // the wall of the run
};
Times times_of(const FinishedRun& run);

// The phases of a summary are sums over the workers that reported; those of a lost node did not.
double per_worker(const FinishedRun& run, double total_seconds);

// The times of a run that failed, was stopped, overran its emulation, lost nodes or is unfinished are not its
// policy's.
bool is_comparable(const FinishedRun& run);

// Why not to trust the times of a run; empty when there is no reason.
std::vector<std::string> caveats_of(const FinishedRun& run);

}  // namespace paceline
