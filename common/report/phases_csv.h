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
//
// While a run goes, and where it was killed, there is phases_so_far.csv instead (node, thread, phase,
// total_seconds): sums alone, as the nodes last said.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/status.h"
#include "common/timing/phase_times.h"
#include "common/timing/phase_totals.h"

namespace paceline {

struct WorkerPhases {
  WorkerId worker;
  PhaseTotals totals;
};

struct WorkerTimes {
  WorkerId worker;
  PhaseTimes times;
};

inline constexpr const char* kPhasesSoFarFile = "phases_so_far.csv";

// Into run_dir, in the order given. Errors: common/files/atomic_file.h.
[[nodiscard]] Status write_phases_so_far(const std::filesystem::path& run_dir,
                                         std::span<const WorkerTimes> workers);

// Both files into run_dir, in the order given; phases_so_far.csv goes. Errors: common/files/atomic_file.h.
[[nodiscard]] Status write_phases(const std::filesystem::path& run_dir,
                                  std::span<const WorkerPhases> workers);

// Reads them back, exactly; hidden_seconds, which older versions do not write, are 0 where they are not
// there. Errors: kNotFound a file is missing; kDataLoss naming file, line, got and expected.
Result<std::vector<WorkerPhases>> read_phases(const std::filesystem::path& run_dir);

// Whether it says how often, and how long each time, as of a run that was killed nothing does: its time is
// known, but not what makes it up.
inline bool is_counted(const PhaseStat& stat) { return stat.count > 0 || stat.total_ns == 0; }

// What there is of them, and in `lacking` a line for each thing that is not. Of an older version: without
// phases_histogram.csv, the quantiles of a worker are those of phases.csv (or its means), and quantiles over
// several are taken from these. Of a run that has not ended: sums alone (is_counted()). Errors: kNotFound
// neither phases.csv nor phases_so_far.csv; kDataLoss as above.
struct PhasesThere {
  std::vector<WorkerPhases> workers;
  std::vector<std::string> lacking;
  bool so_far = false;  // of phases_so_far.csv
};
Result<PhasesThere> read_phases_there(const std::filesystem::path& run_dir);

}  // namespace paceline
