// summary.json: one run in one object, written once at its end by the authority and read by `paceline
// report`, by the scripts and by whoever compares runs. Scripts rely on its keys and their meanings.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/report/batch_sizes.h"
#include "common/report/staleness.h"
#include "common/status.h"
#include "common/timing/phase_totals.h"
#include "common/timing/phases.h"

namespace paceline {

// One phase, summed over all workers.
struct PhaseSum {
  double total_seconds = 0.0;
  std::int64_t count = 0;
  double hidden_seconds = 0.0;  // beside the phases, in none of them: in the shadow of computing
  // Milliseconds for each occurrence; 0 when there were none.
  double mean_ms() const { return count == 0 ? 0.0 : total_seconds * 1e3 / static_cast<double>(count); }
};

// From here on a policy was in force (`policy: switch`).
struct PolicyChange {
  std::string policy;
  Version version;
  double seconds = 0.0;  // since the first grant
  Threshold threshold;   // with which it began; infinite is null in JSON
};

// Of the parameters that gradients were computed with (common/report/staleness.h), over all workers.
struct StalenessSum {
  double mean = 0.0;
  std::int64_t max = 0;
};
struct StalenessSums {
  StalenessSum clocks;
  StalenessSum gradients;
};

// Of the run's state on disk while it trained.
struct CheckpointCounts {
  std::int64_t written = 0;
  std::int64_t failed = 0;
};

// What the stages of a pipeline have done.
struct PipelineSummary {
  std::int64_t stages = 0;
  std::int64_t micro_batches = 0;
  double bubble_share = 0.0;  // of the time of all steps, what stages waited for others
  std::vector<std::int64_t> peak_activation_bytes = {};  // of each stage, of its groups the most
  // Of each stage, over its groups: within its steps. Empty: of an older version.
  std::vector<double> busy_seconds = {};
  std::vector<double> idle_for_previous_seconds = {};
  std::vector<double> idle_for_next_seconds = {};
  // The cut that it was run with: of each part, one after the other, its layers and the floats of its parameters; parts
  // s, s + stages, … are stage s's. Empty: of an older version, or a loop's own model (pipeline.balance: loop).
  std::vector<std::int64_t> layers = {};
  std::vector<std::int64_t> parameters = {};
  std::int64_t chunks = 1;  // of the network, of each stage
};

// The events in a run's trace, and the older ones that there was no room for (run.trace_events).
struct TraceCounts {
  std::int64_t events = 0;
  std::int64_t left_out = 0;
};

// A worker that was slow in its last iterations (common/timing/straggler_scores.h).
struct StragglerSummary {
  WorkerId worker;
  double relative = 0.0;    // 0..1: the fastest worker's iteration time / its own
  double individual = 0.0;  // 0..1: its own best / its last
  double iteration_seconds = 0.0;
};

// Of a run's emulated steps: were more late, its times say nothing, and it is "invalid" (docs/CONFIG.md).
// Of few steps two may be: one late step of 80 is an accident of the machine.
inline constexpr double kOverrunShareMax = 0.01;
inline constexpr std::int64_t kOverrunsForgiven = 2;
constexpr bool too_many_overruns(std::int64_t overruns, std::int64_t steps) {
  return overruns > kOverrunsForgiven &&
         static_cast<double>(overruns) > kOverrunShareMax * static_cast<double>(steps);
}

struct RunSummary {
  std::string status = "ok";  // "ok", or what the run ended as: "failed", "stopped", "invalid"
  std::string reason;         // why it is not ok; the key is absent when empty
  // The seed, where the run was simulated; then the file says "simulated": true and "seed", else neither.
  std::optional<std::uint64_t> simulated_seed = {};
  // Where its computations were drawn from a real run's trace, a number of what that holds; else no such key.
  std::optional<std::string> trace = {};
  std::string exchange = {};           // "allreduce"; the key is absent where gradients go to servers
  std::string policy;                  // as in the configuration: "bsp", "dtssp", ...
  std::vector<PolicyChange> switches;  // the first at version 0; the key is absent when empty
  std::uint32_t nodes = 0;
  std::uint32_t threads_per_node = 0;  // "workers" is their product
  std::int64_t iterations = 0;         // mini-batches whose gradients, or rounds, were applied
  std::optional<std::int64_t> rounds =
      {};                     // applied, where train.local_steps is above 1; else the key is absent
  double wall_seconds = 0.0;  // first grant to the last worker's last reply
  Version final_version;
  Threshold final_threshold;            // infinite is null in JSON
  Staleness max_grant_gap;              // largest clock - min clock at a grant
  Staleness max_clock_gap;              // largest difference of clocks after any update
  std::optional<double> test_accuracy;  // 0..1, of the final model; null when it was not evaluated
  std::optional<double> test_loss;
  std::int64_t bytes_pushed = 0;  // header and payload bytes given to ZeroMQ
  // Payload bytes of gradients handed over while the rest was computed: sent, or lent to a server that reads
  // in place; so part of bytes_pushed, of bytes_shared, or of both together, and to be added to neither.
  std::int64_t bytes_pushed_early = 0;
  std::int64_t bytes_pulled = 0;
  std::int64_t bytes_shared = 0;  // payload bytes in memory that both sides see, and not given to ZeroMQ
  // All-reduce: of gradients and sums, payload bytes that nodes have sent to each other; else the key is absent. Of
  // those bytes_pushed_early left while the rest was computed.
  std::optional<std::int64_t> bytes_reduced = {};
  // Of those, how many a node has sent in a second of the time in which buckets were reduced, waiting included: the bus
  // bandwidth; 0 where nothing was sent.
  double bus_bytes_per_second = 0.0;
  std::vector<std::string> algorithms =
      {};                         // of it: which summed buckets of which size, and why; a line each
  std::int64_t pulls = 0;         // that the shards took, each one for itself; evaluations' too
  std::int64_t lost_nodes = 0;    // how many
  std::vector<std::string> lost;  // which and why: "node 2: silent for 10.2 s"; the key is absent when empty
  // Of those, and of those that were not there when training began, who came, and when: "node 2 at version
  // 118"; the lists' keys are absent when empty, the counts' when 0.
  std::int64_t returned_nodes = 0;
  std::vector<std::string> returned;
  std::int64_t late_nodes = 0;
  std::vector<std::string> late;
  // How often a node's connection to a server broke and the node went on over another one; the key is absent
  // when 0.
  std::int64_t reconnects = 0;
  std::int64_t overruns = 0;         // emulated steps that did not fit
  std::int64_t skipped = 0;          // iterations without a gradient (NaN under on_nan: skip)
  std::int64_t iterations_lost = 0;  // begun by a worker that was lost, and not applied
  // Left by a lost worker, and done by nobody, of a run that went to its end; the key is absent when 0.
  std::int64_t iterations_undone = 0;
  std::int64_t dropped = 0;    // gradients that came too late to count (policy: backup)
  std::int64_t malformed = 0;  // messages the servers refused
  // 1, and one more with each resume; and the version that the last one went on from. Both keys are absent
  // for a run that was never resumed. What nodes and shards report (phases, bytes, reads, overruns,
  // malformed, reconnects) is of the last generation alone.
  std::uint64_t generation = 1;
  std::optional<Version> resumed_from = {};
  // In all generations; the keys "checkpoints" and "checkpoints_failed" are absent where none are configured.
  std::optional<CheckpointCounts> checkpoints = {};
  // By workers, at the beginning of an iteration. Of them server_reads had to wait for a server; the others a
  // cache answered, and sent nothing. What a cache has may have come down with the push: pulls / (shards x
  // parameter_reads) is how many transfers there were for each read, many under refresh_clocks: 1, few under
  // null.
  std::int64_t parameter_reads = 0;
  std::int64_t server_reads = 0;
  std::optional<StalenessSums> staleness = {};  // the key is absent when nothing was recorded
  // Of the authority's log and standard error, what neither took in time (common/process/line_writer.h); the key
  // is absent when 0.
  std::int64_t lines_dropped = 0;
  // Pictures that cannot be read (data.on_bad: skip), as many as the node that found most; the key is absent when
  // 0.
  std::int64_t samples_left_out = 0;
  // Of each stage of a pipeline; the key is absent where there is none.
  std::optional<PipelineSummary> pipeline = {};
  // Of trace.json; the keys "trace_events" and "trace_events_left_out" are absent where there is none.
  std::optional<TraceCounts> traced = {};
  // Of each worker, in worker order; the key is absent unless batches were balanced.
  std::optional<WorkerBatchSizes> batch_sizes = {};
  // The slowest first; the key is absent when there were none.
  std::vector<StragglerSummary> stragglers = {};
  std::array<PhaseSum, kPhaseCount> phases;
  double unaccounted_seconds = 0.0;

  std::uint32_t workers() const { return nodes * threads_per_node; }
  const PhaseSum& operator[](Phase p) const { return phases[static_cast<std::size_t>(p)]; }
  PhaseSum& operator[](Phase p) { return phases[static_cast<std::size_t>(p)]; }
};

// Fills phases and unaccounted_seconds from all workers' totals, merged.
void set_phases(RunSummary& summary, const PhaseTotals& merged);
// Fills staleness from all workers' counts.
void set_staleness(RunSummary& summary, std::span<const WorkerStaleness> workers);

// The JSON text; numbers that are not finite become null, which JSON has instead of them.
std::string to_json(const RunSummary& summary);

// Reads what to_json() wrote. Keys it does not know are ignored: they are a newer program's. Errors:
// kDataLoss naming the key that is missing or of another type, batch sizes that are not one for each worker,
// or where the text is no JSON.
Result<RunSummary> parse_summary(const std::string& text);

// <run_dir>/summary.json, atomically. Errors: common/files/atomic_file.h.
[[nodiscard]] Status write_summary(const std::filesystem::path& run_dir, const RunSummary& summary);
Result<RunSummary> read_summary(const std::filesystem::path& run_dir);

// Whether its summary says that the run in the folder ended as it was meant to.
bool ended_well(const std::filesystem::path& run_dir);
// Whether it says that the run has ended, not well, before anything was trained.
bool trained_nothing(const std::filesystem::path& run_dir);
// Whether a --force that is given once may replace what the folder holds. Errors: kFailedPrecondition it is a
// run that ended well.
[[nodiscard]] Status check_replaceable(const std::filesystem::path& run_dir);

// What there is of a summary that another version may have written: `lacking` are the keys that are missing
// or of another type, which are left at what a RunSummary begins with. Errors: as above, of a file that is no
// JSON object with a status.
struct SummaryThere {
  RunSummary summary;
  std::vector<std::string> lacking;
};
Result<SummaryThere> read_summary_there(const std::filesystem::path& run_dir);

}  // namespace paceline
