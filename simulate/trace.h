// What a real run says about the cluster it ran on, taken for the assumptions of a simulated one.
//
// A run that was traced (run.trace) has each computation in trace.json: they are taken as they were
// (replayed_times.h). Any run has, for each worker and phase, a histogram, a count and a total
// (phases_histogram.csv, phases.csv). From these:
//   computations    of a run that was not traced, of worker w: drawn from w's own histogram of
//                   COMPUTE_GRADS, within 1.6 %, and scaled so that their mean is w's exactly. Independent
//                   draws: slow periods are in the histogram, but not that they were periods. Where the
//                   configuration to be simulated emulates, its computations are known better than any
//                   histogram says, and stay as they are.
//   costs.batch     the mean of BATCH
//   costs.message   half of STEP's median: a report is built and its answer parsed
//   costs.copy, costs.local_apply      what 10 % of P_CACHE_PARAM, and of APPLY_GRADS, were not longer than,
//                   over the number of floats: one pass, while most also add own updates again. Without the
//                   reads that were over at once: their parameters had been copied in in their place.
//   network.bandwidth      what is left of the PS_APPLY_GRADS that 10 % were not longer than, the exchanges
//                   that met nobody, is the gradient's way through its link. Of all nodes together, or, where
//                   the configuration has a bandwidth for each node, of each by its own workers
// What the run has no phase for (costs.apply, network.server_bandwidth, network.latency) stays as configured.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/config/run_config.h"
#include "common/report/phases_csv.h"
#include "common/status.h"
#include "common/trace/trace_file.h"
#include "simulate/compute_times.h"

namespace paceline::simulate {

struct Trace {
  RunConfig calibrated;                         // the configuration, with what the trace says better
  std::unique_ptr<ComputeTimes> compute_times;  // null: as `calibrated` says
  std::uint64_t fingerprint = 0;                // of what computations are drawn from
};

// A finished run that simulations are calibrated on. Thread: one at a time.
class TracedRun {
 public:
  // Reads what every simulation takes from the directory `run`. Errors: kNotFound, kDataLoss it is no run
  // directory; kFailedPrecondition, saying which, a run that is not ok, lost nodes or did not do all its
  // iterations (common/report/counted.h).
  static Result<TracedRun> read(const std::filesystem::path& run);

  // What it says for simulating `config`; its trace.json is read for the first that computations are drawn
  // for. Errors: kFailedPrecondition another layout (nodes, threads, the model's parameters, the mini-batch,
  // the kind of optimizer; shards, frames, encodings), or workers without phases; those of
  // trace::read_trace_file(); kInvalidArgument a simulate.compute.distribution beside computations that are
  // drawn from the trace.
  Result<Trace> trace_for(const RunConfig& config);

 private:
  explicit TracedRun(std::filesystem::path run) : run_(std::move(run)) {}
  Status draw_computations(Trace& trace);

  std::filesystem::path run_;
  RunConfig traced_;
  std::vector<WorkerPhases> workers_;
  std::uint64_t histograms_ = 0;  // a number over phases_histogram.csv
  bool has_steps_ = false;        // a trace.json
  std::optional<trace::Trace> steps_;
};

// The trace in `run`, for simulating `config`. Errors: those of TracedRun.
Result<Trace> read_trace(const std::filesystem::path& run, const RunConfig& config);

// Draws from histograms of one phase, one worker each, in rank order; a function of seed, rank and clock.
// Every histogram has an occurrence.
std::unique_ptr<ComputeTimes> recorded_times(std::span<const PhaseStat> workers, std::uint64_t seed);

}  // namespace paceline::simulate
