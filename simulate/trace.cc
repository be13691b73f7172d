#include "simulate/trace.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "common/config/load.h"
#include "common/config/names.h"
#include "common/files/atomic_file.h"
#include "common/fnv1a.h"
#include "common/network/network.h"
#include "common/random.h"
#include "common/report/counted.h"
#include "common/report/run_summary.h"
#include "common/timing/histogram.h"
#include "common/trace/trace_file.h"
#include "simulate/message_sizes.h"
#include "simulate/replayed_times.h"
#include "simulate/virtual_time.h"

namespace paceline::simulate {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kHistogramBytesMax = std::size_t{1} << 30;

class Recorded final : public ComputeTimes {
 public:
  Recorded(std::span<const PhaseStat> workers, std::uint64_t seed) : seed_(seed) {
    for (const PhaseStat& stat : workers) workers_.push_back(distribution_of(stat));
  }

  std::chrono::nanoseconds length(Rank worker, Clock clock) const override {
    const Distribution& d = workers_[worker.value];
    CounterRandom random(seed_, Stream::kSimulatedCompute, worker.value,
                         static_cast<std::uint64_t>(clock.value));
    const auto occurrence =
        static_cast<std::int64_t>(random.next_below(static_cast<std::uint64_t>(d.up_to.back())));
    const auto bucket = std::upper_bound(d.up_to.begin(), d.up_to.end(), occurrence) - d.up_to.begin();
    const double ns = d.scale * d.ns[static_cast<std::size_t>(bucket)];
    return std::max(length_of(ns), std::chrono::nanoseconds(1));
  }

 private:
  struct Distribution {
    std::vector<std::int64_t> up_to;  // occurrences in this bucket and those below
    std::vector<double> ns;           // its middle
    double scale = 1.0;               // makes the mean that of the total, which is exact
  };
  static Distribution distribution_of(const PhaseStat& stat) {
    Distribution d;
    double total = 0.0;
    std::int64_t occurrences = 0;
    for (const auto& [bucket, count] : stat.histogram) {
      occurrences += count;
      d.up_to.push_back(occurrences);
      d.ns.push_back(static_cast<double>(histogram_middle_ns(bucket)));
      total += d.ns.back() * static_cast<double>(count);
    }
    if (total > 0.0) d.scale = static_cast<double>(stat.total_ns) / total;
    return d;
  }

  std::uint64_t seed_;
  std::vector<Distribution> workers_;  // by rank
};

// A run that failed, overran its emulation, lost nodes or was cut off has other times than the cluster would
// have had: waiting for the lost, computations that did not fit, none of the longest at its end.
Status check_finished(const fs::path& run, const RunSummary& summary, const RunConfig& traced) {
  std::string fault = fault_of(summary);
  if (fault.empty()) fault = unfinished(summary, traced.train.total_iterations, traced.train.share);
  if (fault.empty()) return Status::ok();
  return failed_precondition(run.string() + ": no trace: got a run that ended with " + fault +
                             ", expected one that is ok, with all its nodes and iterations");
}

Status another(const fs::path& run, const std::string& what, const std::string& got,
               const std::string& expected) {
  return failed_precondition(run.string() + ": a trace of other computations or messages: " + what +
                             ", got " + got + ", expected " + expected +
                             ", as is to be simulated; trace a short run of this configuration");
}
Status another(const fs::path& run, const std::string& what, std::int64_t got, std::int64_t expected) {
  return another(run, what, std::to_string(got), std::to_string(expected));
}

// What decides how a gradient is cut and how many bytes it has: the traced exchanges were of theirs, and
// calibrate() takes them for ours.
Status check_messages(const fs::path& run, const ClusterSection& traced, const ClusterSection& ours) {
  if (traced.shards != ours.shards) return another(run, "cluster.shards", traced.shards, ours.shards);
  if (traced.frame_bytes != ours.frame_bytes) {
    return another(run, "cluster.frame_bytes", traced.frame_bytes, ours.frame_bytes);
  }
  if (traced.gradient_encoding != ours.gradient_encoding) {
    return another(run, "cluster.gradient_encoding", name_of(traced.gradient_encoding),
                   name_of(ours.gradient_encoding));
  }
  if (traced.top_k_share != ours.top_k_share) {
    return another(run, "cluster.top_k_share", std::to_string(traced.top_k_share.value_or(1.0)),
                   std::to_string(ours.top_k_share.value_or(1.0)));
  }
  if (traced.parameter_encoding != ours.parameter_encoding) {
    return another(run, "cluster.parameter_encoding", name_of(traced.parameter_encoding),
                   name_of(ours.parameter_encoding));
  }
  return Status::ok();
}

// What a mini-batch is computed on, and how: its times are of that.
Status check_machine(const fs::path& run, const RunConfig& traced, const RunConfig& config) {
  if (traced.train.device != config.train.device) {
    return another(run, "train.device", name_of(traced.train.device), name_of(config.train.device));
  }
  if (traced.train.backend != config.train.backend) {
    return another(run, "train.backend", name_of(traced.train.backend), name_of(config.train.backend));
  }
  if (traced.train.precision != config.train.precision) {
    return another(run, "train.precision", name_of(traced.train.precision), name_of(config.train.precision));
  }
  if (traced.train.accumulate != config.train.accumulate) {
    return another(run, "train.accumulate", traced.train.accumulate, config.train.accumulate);
  }
  return Status::ok();
}

Status check_layout(const fs::path& run, const RunConfig& traced, const RunConfig& config) {
  if (traced.cluster.nodes != config.cluster.nodes) {
    return another(run, "cluster.nodes", traced.cluster.nodes, config.cluster.nodes);
  }
  if (traced.cluster.threads_per_node != config.cluster.threads_per_node) {
    return another(run, "cluster.threads_per_node", traced.cluster.threads_per_node,
                   config.cluster.threads_per_node);
  }
  PACELINE_ASSIGN_OR_RETURN(const NetworkSpec theirs, build_network(traced));
  PACELINE_ASSIGN_OR_RETURN(const NetworkSpec ours, build_network(config));
  if (theirs.layout.hash() != ours.layout.hash()) {
    return another(run, "the model's parameters (train.model)", theirs.layout.size(), ours.layout.size());
  }
  if (traced.train.batch_size != config.train.batch_size) {
    return another(run, "train.batch_size", traced.train.batch_size, config.train.batch_size);
  }
  PACELINE_RETURN_IF_ERROR(check_machine(run, traced, config));
  // What a local apply takes, and how many states it reads and writes.
  if (traced.train.optimizer.kind != config.train.optimizer.kind) {
    return another(run, "train.optimizer.kind", name_of(traced.train.optimizer.kind),
                   name_of(config.train.optimizer.kind));
  }
  return check_messages(run, traced.cluster, config.cluster);
}

// What is recorded are the times of whole iterations; of how many samples each was is not.
Status check_sizes(const fs::path& run, const RunConfig& traced) {
  if (traced.train.sizing() == BatchSizing::kEqual) return Status::ok();
  return failed_precondition(run.string() +
                             ": no trace of computations: mini-batches had several sizes, got train." +
                             (traced.train.local_balance == BatchSizing::kEqual ? "batch" : "local") +
                             "_balance: speed, expected off, or emulate.base_step here");
}

Status check_workers(const fs::path& run, const RunConfig& config, std::span<const WorkerPhases> workers) {
  const Cluster cluster = config.cluster.cluster();
  if (workers.size() > static_cast<std::size_t>(cluster.workers())) {
    return failed_precondition(run.string() + ": no trace: phases.csv has " + std::to_string(workers.size()) +
                               " workers, expected " + std::to_string(cluster.workers()));
  }
  for (std::uint32_t r = 0; r < cluster.workers(); ++r) {
    const WorkerId worker = cluster.worker_at(Rank(r));
    const bool there = r < workers.size() && workers[r].worker == worker &&
                       workers[r].totals[Phase::kComputeGrads].count > 0;
    if (there) continue;
    return failed_precondition(run.string() + ": no trace: worker " + to_string(worker) +
                               " has no COMPUTE_GRADS in phases.csv");
  }
  return Status::ok();
}

// Computations come from the trace: what else would say how long they take would go unread. A mean, a
// slowdown and the distributions' own keys stand only beside another distribution
// (common/config/validate.cc).
Status check_compute(const SimulatedCompute& compute) {
  if (compute.distribution == ComputeKind::kEmulated) return Status::ok();
  return invalid_argument(
      std::string("simulate.compute.distribution: computations are drawn from the trace, got ") +
      name_of(compute.distribution) + ", expected emulated without its mean and slowdown, or no --trace");
}

double mean_ns(const PhaseStat& stat) {
  return stat.count == 0 ? 0.0 : static_cast<double>(stat.total_ns) / static_cast<double>(stat.count);
}

// No thread goes through its parameters in less: what lasted shorter took none over.
constexpr double kPassNsPerFloatMin = 0.05;

// Of occurrences that are one pass over the parameters or several: what one takes, in ns per float.
std::optional<double> one_pass(const PhaseStat& stat, std::int64_t floats) {
  PhaseStat passes;
  for (const auto& [bucket, count] : stat.histogram) {
    const auto ns = static_cast<double>(histogram_middle_ns(bucket));
    if (ns < kPassNsPerFloatMin * static_cast<double>(floats) || ns <= 0.0) continue;
    passes.histogram.emplace_back(bucket, count);
    passes.count += count;
  }
  if (passes.count == 0) return std::nullopt;
  return static_cast<double>(quantile_ns(passes, 0.1)) / static_cast<double>(floats);
}

// The bandwidth of a link by the exchanges of those who share it. Those that met nobody, less their messages
// and latency, are a gradient's way through it; none where nothing is left.
std::optional<std::int64_t> link_bandwidth(const RunConfig& config, const PhaseStat& exchanges,
                                           std::int64_t floats) {
  double messages = 2.0;  // the grant, and what follows it
  double bytes = 0.0;
  for (const ShardSizes& shard : message_sizes(config.cluster, floats)) {
    messages += static_cast<double>(shard.gradient.messages);
    bytes += static_cast<double>(shard.gradient.bytes);
  }
  const double alone = static_cast<double>(quantile_ns(exchanges, 0.1));
  const double latency = 2.0 * static_cast<double>(config.simulate.network.latency.count());
  const double on_its_way =
      alone - latency - messages * static_cast<double>(config.simulate.costs.message.count());
  if (on_its_way <= 0.0) return std::nullopt;
  return std::llround(bytes / on_its_way * 1e9);
}

// What is measured takes the place of what was assumed; what was not stays.
void calibrate(RunConfig& config, std::span<const WorkerPhases> workers, std::int64_t floats) {
  PhaseTotals all;
  std::vector<PhaseTotals> of_nodes(config.cluster.nodes);
  for (const WorkerPhases& worker : workers) {
    merge(all, worker.totals);
    merge(of_nodes[worker.worker.node.value], worker.totals);
  }
  SimulatedCosts& costs = config.simulate.costs;
  costs.batch = Duration(std::llround(mean_ns(all[Phase::kBatch])));
  costs.message = Duration(quantile_ns(all[Phase::kStep], 0.5) / 2);
  costs.local_apply = one_pass(all[Phase::kApplyGrads], floats).value_or(costs.local_apply);
  costs.copy = one_pass(all[Phase::kPCacheParam], floats).value_or(costs.copy);
  // Links that the configuration has one by one are measured one by one.
  std::vector<std::optional<std::int64_t>>& bandwidth = config.simulate.network.bandwidth;
  for (std::size_t n = 0; n < bandwidth.size(); ++n) {
    const PhaseTotals& exchanges = bandwidth.size() == 1 ? all : of_nodes[n];
    if (const auto measured = link_bandwidth(config, exchanges[Phase::kPsApplyGrads], floats)) {
      bandwidth[n] = measured;
    }
  }
}

}  // namespace

std::unique_ptr<ComputeTimes> recorded_times(std::span<const PhaseStat> workers, std::uint64_t seed) {
  return std::make_unique<Recorded>(workers, seed);
}

Result<TracedRun> TracedRun::read(const fs::path& run) {
  TracedRun read(run);
  PACELINE_ASSIGN_OR_RETURN(const RunSummary summary, read_summary(run));
  PACELINE_ASSIGN_OR_RETURN(read.traced_, load_config((run / "config.yaml").string(), {}, LoadFor::kReading));
  PACELINE_RETURN_IF_ERROR(check_finished(run, summary, read.traced_));
  PACELINE_ASSIGN_OR_RETURN(read.workers_, read_phases(run));
  PACELINE_ASSIGN_OR_RETURN(const std::string histograms,
                            read_file(run / "phases_histogram.csv", kHistogramBytesMax));
  read.histograms_ = fnv1a(histograms);
  std::error_code ignored;
  read.has_steps_ = fs::exists(run / trace::kTraceFile, ignored);
  return read;
}

Result<Trace> TracedRun::trace_for(const RunConfig& config) {
  if (!config.emulate.base_step) PACELINE_RETURN_IF_ERROR(check_compute(config.simulate.compute));
  PACELINE_RETURN_IF_ERROR(check_layout(run_, traced_, config));
  if (!config.emulate.base_step) PACELINE_RETURN_IF_ERROR(check_sizes(run_, traced_));
  PACELINE_RETURN_IF_ERROR(check_workers(run_, config, workers_));
  Trace trace{config, nullptr, histograms_};
  PACELINE_ASSIGN_OR_RETURN(const NetworkSpec network, build_network(config));
  const auto links = trace.calibrated.simulate.network.bandwidth;
  calibrate(trace.calibrated, workers_, network.layout.size());
  // What servers are sent says nothing of what nodes send to each other, nor the reverse.
  if (traced_.exchange.kind != config.exchange.kind) trace.calibrated.simulate.network.bandwidth = links;
  if (!config.emulate.base_step) PACELINE_RETURN_IF_ERROR(draw_computations(trace));
  return trace;
}

// Of its own steps, or of the histograms of their times where it recorded none.
Status TracedRun::draw_computations(Trace& trace) {
  if (!has_steps_) {
    std::vector<PhaseStat> computations;
    for (const WorkerPhases& worker : workers_) {
      computations.push_back(worker.totals[Phase::kComputeGrads]);
    }
    trace.compute_times = recorded_times(computations, trace.calibrated.run.seed);
    return Status::ok();
  }
  if (!steps_) {
    PACELINE_ASSIGN_OR_RETURN(steps_, trace::read_trace_file(run_ / trace::kTraceFile));
  }
  Result<ReplayedTimes> replayed = replayed_times(*steps_, trace.calibrated.cluster.cluster());
  if (!replayed.is_ok()) {
    return Status(replayed.status().code(),
                  run_.string() + ": no trace: " + replayed.status().message() +
                      "; of a run of several machines, bring the trace-node-*.json there and call paceline " +
                      "trace " + run_.string());
  }
  trace.compute_times = std::move(replayed->times);
  trace.fingerprint = replayed->fingerprint;
  return Status::ok();
}

Result<Trace> read_trace(const fs::path& run, const RunConfig& config) {
  PACELINE_ASSIGN_OR_RETURN(TracedRun traced, TracedRun::read(run));
  return traced.trace_for(config);
}

}  // namespace paceline::simulate
