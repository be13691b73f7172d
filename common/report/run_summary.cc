// summary.json, written and read. The only file of this library that sees JSON.
#include "common/report/run_summary.h"

#include <nlohmann/json.hpp>

#include "common/files/atomic_file.h"
#include "common/files/json_fields.h"
#include "common/files/shallow_json.h"

namespace paceline {
namespace {

// Keys stay in the order of the contract, which is the order people read them in.
using Json = nlohmann::ordered_json;
constexpr const char* kSummaryFile = "summary.json";
constexpr std::size_t kSummaryBytesMax = std::size_t{1} << 20;

}  // namespace

void fields(auto& io, Is<PolicyChange> auto& change) {
  io.must("policy", change.policy);
  io.must("version", change.version);
  io.must("seconds", change.seconds);
  io.must("threshold", change.threshold);
}

void fields(auto& io, Is<StalenessSum> auto& sum) {
  io.must("mean", sum.mean);
  io.must("max", sum.max);
}

void fields(auto& io, Is<StalenessSums> auto& sums) {
  io.must("clocks", sums.clocks);
  io.must("gradients", sums.gradients);
}

void fields(auto& io, Is<WorkerBatchSizes> auto& sizes) {
  io.must("last", sizes.last);
  io.must("smallest", sizes.smallest);
  io.must("largest", sizes.largest);
}

void fields(auto& io, Is<StragglerSummary> auto& slow) {
  io.must("worker", slow.worker);
  io.must("relative", slow.relative);
  io.must("individual", slow.individual);
  io.must("iteration_seconds", slow.iteration_seconds);
}

void fields(auto& io, Is<PhaseSum> auto& sum) {
  io.must("total_seconds", sum.total_seconds);
  io.derived("mean_ms", sum.mean_ms());
  io.must("count", sum.count);
  io.may("hidden_seconds", sum.hidden_seconds);
}

void fields(auto& io, Is<std::array<PhaseSum, kPhaseCount>> auto& phases) {
  for (std::size_t i = 0; i < kPhaseCount; ++i) io.must(kPhaseNames[i], phases[i]);
}

void fields(auto& io, Is<PipelineSummary> auto& pipeline) {
  io.must("stages", pipeline.stages);
  io.must("micro_batches", pipeline.micro_batches);
  io.may("chunks", pipeline.chunks);
  io.must("bubble_share", pipeline.bubble_share);
  io.must("peak_activation_bytes", pipeline.peak_activation_bytes);
  io.if_any("busy_seconds", pipeline.busy_seconds);
  io.if_any("idle_for_previous_seconds", pipeline.idle_for_previous_seconds);
  io.if_any("idle_for_next_seconds", pipeline.idle_for_next_seconds);
  io.if_any("layers", pipeline.layers);
  io.if_any("parameters", pipeline.parameters);
}

void fields(auto& io, Is<RunSummary> auto& s) {
  io.must("status", s.status);
  io.if_any("reason", s.reason);
  bool simulated = s.simulated_seed.has_value();
  io.if_any("simulated", simulated);
  if (simulated) io.must("seed", s.simulated_seed);
  io.if_any("trace", s.trace);
  io.if_any("exchange", s.exchange);
  io.must("policy", s.policy);
  io.if_any("switches", s.switches);
  io.must("nodes", s.nodes);
  io.must("threads_per_node", s.threads_per_node);
  io.derived("workers", s.workers());
  io.must("iterations", s.iterations);
  io.if_any("rounds", s.rounds);
  io.must("wall_seconds", s.wall_seconds);
  io.must("final_version", s.final_version);
  io.must("final_threshold", s.final_threshold);
  io.must("max_grant_gap", s.max_grant_gap);
  io.must("max_clock_gap", s.max_clock_gap);
  io.must("test_accuracy", s.test_accuracy);
  io.must("test_loss", s.test_loss);
  io.must("bytes_pushed", s.bytes_pushed);
  io.may("bytes_pushed_early", s.bytes_pushed_early);
  io.must("bytes_pulled", s.bytes_pulled);
  io.may("bytes_shared", s.bytes_shared);
  io.if_any("bytes_reduced", s.bytes_reduced);
  io.if_any("bus_bytes_per_second", s.bus_bytes_per_second);
  io.if_any("algorithms", s.algorithms);
  io.must("pulls", s.pulls);
  io.must("lost_nodes", s.lost_nodes);
  io.if_any("lost", s.lost);
  io.if_any("returned_nodes", s.returned_nodes);
  io.if_any("returned", s.returned);
  io.if_any("late_nodes", s.late_nodes);
  io.if_any("late", s.late);
  io.if_any("reconnects", s.reconnects);
  io.must("overruns", s.overruns);
  io.must("skipped", s.skipped);
  io.may("iterations_lost", s.iterations_lost);
  io.if_any("iterations_undone", s.iterations_undone);
  io.may("dropped", s.dropped);
  io.if_any("generation", s.generation, std::uint64_t{1});
  io.if_any("resumed_from_version", s.resumed_from);
  io.part("checkpoints", s.checkpoints, [](auto& beside, auto& counts) {
    beside.must("checkpoints", counts.written);
    beside.may("checkpoints_failed", counts.failed);
  });
  io.must("malformed", s.malformed);
  io.must("parameter_reads", s.parameter_reads);
  io.must("server_reads", s.server_reads);
  io.if_any("staleness", s.staleness);
  io.if_any("lines_dropped", s.lines_dropped);
  io.if_any("samples_left_out", s.samples_left_out);
  io.if_any("pipeline", s.pipeline);
  io.part("trace_events", s.traced, [](auto& beside, auto& counts) {
    beside.must("trace_events", counts.events);
    beside.may("trace_events_left_out", counts.left_out);
  });
  io.if_any("batch_sizes", s.batch_sizes);
  io.if_any("stragglers", s.stragglers);
  io.must("phases", s.phases);
  io.must("unaccounted_seconds", s.unaccounted_seconds);
}

namespace {

Status check_batch_sizes(const RunSummary& summary) {
  if (!summary.batch_sizes) return Status::ok();
  const WorkerBatchSizes& sizes = *summary.batch_sizes;
  for (const auto* const of : {&sizes.last, &sizes.smallest, &sizes.largest}) {
    if (of->size() != summary.workers()) {
      return data_loss("batch_sizes: " + std::to_string(of->size()) + " sizes, expected " +
                       std::to_string(summary.workers()));
    }
  }
  return Status::ok();
}

constexpr std::int64_t kChunksMax = 64;  // as pipeline.chunks has it

// What is said of each stage, or part, is said of all or, by older versions, of none.
Status check_stages(const RunSummary& summary) {
  if (!summary.pipeline) return Status::ok();
  const PipelineSummary& of = *summary.pipeline;
  const auto check = [](const char* key, std::size_t size, std::int64_t expected) {
    if (static_cast<std::int64_t>(size) == expected) return Status::ok();
    return data_loss(std::string("pipeline.") + key + ": " + std::to_string(size) + " numbers, expected " +
                     std::to_string(expected));
  };
  if (of.chunks < 1 || of.chunks > kChunksMax) {
    return data_loss("pipeline.chunks: " + std::to_string(of.chunks) + ", expected 1 to " +
                     std::to_string(kChunksMax));
  }
  PACELINE_RETURN_IF_ERROR(check("peak_activation_bytes", of.peak_activation_bytes.size(), of.stages));
  const std::int64_t timed = of.busy_seconds.empty() ? 0 : of.stages;
  const std::int64_t parts = of.layers.empty() ? 0 : of.stages * of.chunks;
  PACELINE_RETURN_IF_ERROR(check("busy_seconds", of.busy_seconds.size(), timed));
  PACELINE_RETURN_IF_ERROR(check("idle_for_previous_seconds", of.idle_for_previous_seconds.size(), timed));
  PACELINE_RETURN_IF_ERROR(check("idle_for_next_seconds", of.idle_for_next_seconds.size(), timed));
  PACELINE_RETURN_IF_ERROR(check("layers", of.layers.size(), parts));
  return check("parameters", of.parameters.size(), parts);
}

}  // namespace

void set_phases(RunSummary& summary, const PhaseTotals& merged) {
  for (std::size_t i = 0; i < kPhaseCount; ++i) {
    const PhaseStat& stat = merged.phases[i];
    summary.phases[i] = {static_cast<double>(stat.total_ns) * 1e-9, stat.count,
                         static_cast<double>(stat.hidden_ns) * 1e-9};
  }
  summary.unaccounted_seconds = static_cast<double>(unaccounted_ns(merged)) * 1e-9;
}

void set_staleness(RunSummary& summary, std::span<const WorkerStaleness> workers) {
  StalenessCounts clocks, gradients;
  for (const WorkerStaleness& worker : workers) {
    merge(clocks, worker.clocks);
    merge(gradients, worker.gradients);
  }
  if (clocks.count == 0) return;
  summary.staleness = {{clocks.mean(), clocks.max}, {gradients.mean(), gradients.max}};
}

std::string to_json(const RunSummary& summary) {
  JsonWriter writer;
  fields(writer, summary);
  // Bytes that are not UTF-8 (a reason may quote a peer) are replaced rather than refused.
  return writer.json().dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

namespace {

Result<RunSummary> parsed(const std::string& text, std::vector<std::string>* lacking) {
  try {
    const Json json = parse_shallow<Json>(text);
    RunSummary summary;
    JsonReader(json).must("status", summary.status);  // without it it is none
    JsonReader reader(json, nullptr, lacking);
    fields(reader, summary);
    if (const Status sizes = check_batch_sizes(summary); !sizes) {
      if (lacking == nullptr) return sizes;
      summary.batch_sizes.reset();
      lacking->push_back("batch_sizes");
    }
    if (const Status stages = check_stages(summary); !stages) {
      if (lacking == nullptr) return stages;
      summary.pipeline.reset();
      lacking->push_back("pipeline");
    }
    return summary;
  } catch (const Json::parse_error& error) {
    const bool cut_off = error.byte > text.size();
    return data_loss(cut_off ? "cut off after " + std::to_string(text.size()) + " bytes"
                             : "no JSON at byte " + std::to_string(error.byte) + " of " +
                                   std::to_string(text.size()));
  } catch (const Json::exception& error) {
    const std::string what =
        error.what();  // "[json.exception.type_error.302] type must be string, but is number"
    return data_loss(what.substr(what.find("] ") + 2));
  }
}

Result<RunSummary> read_from(const std::filesystem::path& run_dir, std::vector<std::string>* lacking) {
  PACELINE_ASSIGN_OR_RETURN(const std::string text, read_file(run_dir / kSummaryFile, kSummaryBytesMax));
  Result<RunSummary> summary = parsed(text, lacking);
  if (!summary.is_ok()) return Status(summary.status()).with_context((run_dir / kSummaryFile).string());
  return summary;
}

}  // namespace

Result<RunSummary> parse_summary(const std::string& text) { return parsed(text, nullptr); }

Status write_summary(const std::filesystem::path& run_dir, const RunSummary& summary) {
  return write_file_atomically(run_dir / kSummaryFile, to_json(summary));
}

Result<RunSummary> read_summary(const std::filesystem::path& run_dir) { return read_from(run_dir, nullptr); }

bool ended_well(const std::filesystem::path& run_dir) {
  const auto summary = read_summary(run_dir);
  return summary.is_ok() && summary->status == "ok";
}

bool trained_nothing(const std::filesystem::path& run_dir) {
  const auto summary = read_summary(run_dir);
  // Eager gradients are in the parameters before a version is whole.
  return summary.is_ok() && summary->status != "ok" && summary->final_version == Version(0) &&
         summary->iterations == 0;
}

Status check_replaceable(const std::filesystem::path& run_dir) {
  if (!ended_well(run_dir)) return Status::ok();
  return failed_precondition("the run in " + run_dir.string() +
                             " has ended well (summary.json says ok): --force replaces it only when given "
                             "twice, --force --force");
}

Result<SummaryThere> read_summary_there(const std::filesystem::path& run_dir) {
  SummaryThere there;
  PACELINE_ASSIGN_OR_RETURN(there.summary, read_from(run_dir, &there.lacking));
  return there;
}

}  // namespace paceline
