// The tables of `paceline report`, as text: pure functions of what was read from the run directories.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/report/phases_csv.h"
#include "common/report/run_summary.h"

namespace paceline {

struct FinishedRun {
  std::string name;  // as it was given on the command line
  RunSummary summary;
  std::vector<WorkerPhases> workers;
};

// One run: a phase table for each node and one over all (none where no worker reported), then how the run
// ended. In a table, total is the sum over the threads it covers, share is of their walls, and quantiles are
// of all their occurrences.
std::string phase_report(const FinishedRun& run);

// Several runs. First one line each, in seconds for each worker that reported, so that they add up to no more
// than the total:
//   barrier   BARRIER
//   network   PS_APPLY_GRADS + STEP + PS_PARAM
//   compute   COMPUTE_GRADS
//   total     the wall of the run
// then the nine phases, a column for each run. Behind each time, its change against the first run in per
// cent; behind the accuracy, the difference in points. Neither where one of the two runs is not ok or lost
// nodes: such runs are named below the tables with the reason, and runs with overruns, too.
std::string comparison(std::span<const FinishedRun> runs);

}  // namespace paceline
