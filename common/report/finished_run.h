// A run as `paceline report` has read it, and what its tables say of it. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/report/phases_csv.h"
#include "common/report/run_summary.h"

namespace paceline {

// In what a run's work is another than the first one's (comparable.h).
struct Difference {
  std::string key;
  std::string got;    // of this run
  std::string there;  // of the first
};

struct FinishedRun {
  std::string name;  // as it was given on the command line
  // Of a run that has none (`finished` is false): what config.yaml, curve.csv and phases.csv say, with the
  // status "unfinished" or "unreadable".
  RunSummary summary;
  std::vector<WorkerPhases> workers;
  bool finished = true;
  // False where nothing says them, and the summary's are only what it begins with:
  bool has_config = true;    // policy, nodes, threads
  bool has_progress = true;  // version, wall
  bool has_threshold = true;
  bool has_workers = true;                // which workers reported
  std::vector<std::string> missing = {};  // "no curve.csv", a line for each thing that the directory lacks
  std::vector<std::string> lacking = {};  // keys that its summary does not have, of an older version
  bool lacks(const std::string& key) const {
    return std::find(lacking.begin(), lacking.end(), key) != lacking.end();
  }
  std::vector<std::pair<std::string, std::string>> configuration = {};  // effective_values(); empty: unknown
  std::vector<Difference> differs = {};                                 // of several runs: from the first
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

// Applied gradients, where the summary says it.
std::optional<std::int64_t> iterations_of(const FinishedRun& run);

// The times of a run that failed, was stopped, overran its emulation, lost nodes, was resumed, is unfinished or lacks
// phases of workers are not its policy's; those of other work are not to be held against the first run's.
bool is_comparable(const FinishedRun& run);

// Every text in it that comes from a file or a folder's name becomes one that a terminal may be given
// (common/text/printable.h).
void make_printable(FinishedRun& run);

// In what the work of a run is another than the first one's: "train.batch_size is 32, there 64; …"; empty: in
// nothing.
std::string differences_of(const FinishedRun& run);
// "ok", "ok, lost 1", "ok, resumed": its status, and what its times are not to be compared for.
std::string status_of(const RunSummary& run);
// "110 of 400 iterations were skipped: ..."; empty where none was.
std::string skipped_of(const RunSummary& run);
// "12 lines of the server's output and log were dropped, ..."; empty where none was.
std::string dropped_lines_of(const RunSummary& run);
// What is wrong with a run or its directory; empty: nothing.
std::vector<std::string> warnings_of(const FinishedRun& run);
// Why not to trust the times of a run: those, and that it was simulated; empty when there is no reason.
std::vector<std::string> caveats_of(const FinishedRun& run);

}  // namespace paceline
