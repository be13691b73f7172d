// phases.csv: where the time of each worker went, one row for each worker and phase and one for what no phase
// owns.
//
//   node,thread,phase,count,total_seconds,mean_ms,p50_ms,p95_ms,share,hidden_seconds
//   0,0,BATCH,400,0.812345678,2.031,1.984,2.375,0.040617284,0
//   ...
//   0,0,unaccounted,0,0.001200000,0,0,0,0.000060000,0
//
// share: of the worker's wall, which is the sum of its rows. Beside it phases_histogram.csv (node, thread,
// phase, ns, count: how many occurrences were about ns long), from which quantiles over several workers are
// taken: those cannot be had from the workers' quantiles.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/status.h"
#include "common/timing/phase_totals.h"

namespace paceline {

struct WorkerPhases {
  WorkerId worker;
  PhaseTotals totals;
};

// Both files into run_dir, in the order given. Errors: common/files/atomic_file.h.
[[nodiscard]] Status write_phases(const std::filesystem::path& run_dir,
                                  std::span<const WorkerPhases> workers);

// Reads them back, exactly; hidden_seconds, which older versions do not write, are 0 where they are not
// there. Errors: kNotFound a file is missing; kDataLoss naming file, line, got and expected.
Result<std::vector<WorkerPhases>> read_phases(const std::filesystem::path& run_dir);

// What there is of them, and in `lacking` a line for each thing that is not, of an older version: without
// phases_histogram.csv, the quantiles of a worker are those of phases.csv (or its means), and quantiles over
// several are taken from these. Errors: kNotFound no phases.csv; kDataLoss as above.
struct PhasesThere {
  std::vector<WorkerPhases> workers;
  std::vector<std::string> lacking;
};
Result<PhasesThere> read_phases_there(const std::filesystem::path& run_dir);

}  // namespace paceline
