// summary.json, written and read. The only file of this library that sees JSON.
#include "common/report/run_summary.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "common/files/atomic_file.h"
#include "common/files/shallow_json.h"
#include "common/text/printable.h"

namespace paceline {
namespace {

// Keys stay in the order of the contract, which is the order people read them in.
using Json = nlohmann::ordered_json;
constexpr const char* kSummaryFile = "summary.json";
constexpr std::size_t kSummaryBytesMax = std::size_t{1} << 20;

Json optional_json(const std::optional<double>& number) {
  return number && std::isfinite(*number) ? Json(*number) : Json(nullptr);
}

std::optional<double> optional_from(const Json& value) {
  if (value.is_null()) return std::nullopt;
  return value.get<double>();
}

Json threshold_json(Threshold threshold) {
  return threshold.is_infinite() ? Json(nullptr) : Json(threshold.value());
}

Threshold threshold_from(const Json& value) {
  return value.is_null() ? Threshold::infinite() : Threshold(value.get<std::int64_t>());
}

Json staleness_json(const StalenessSum& sum) { return {{"mean", sum.mean}, {"max", sum.max}}; }

StalenessSum staleness_from(const Json& json) {
  return {json.at("mean").get<double>(), json.at("max").get<std::int64_t>()};
}

WorkerBatchSizes batch_sizes_from(const Json& json) {
  using Sizes = std::vector<std::int64_t>;
  return {json.at("last").get<Sizes>(), json.at("smallest").get<Sizes>(), json.at("largest").get<Sizes>()};
}

// "1.2"
WorkerId worker_from(const Json& json) {
  const auto text = json.get<std::string>();
  const std::optional<WorkerId> worker = parse_worker(text);
  if (worker) return *worker;
  throw Json::type_error::create(302, "worker must be like \"1.2\", but is \"" + quotable(text) + "\"",
                                 &json);
}

Json phases_json(const RunSummary& summary) {
  Json phases = Json::object();
  for (std::size_t i = 0; i < kPhaseCount; ++i) {
    const PhaseSum& sum = summary.phases[i];
    phases[kPhaseNames[i]] = {{"total_seconds", sum.total_seconds},
                              {"mean_ms", sum.mean_ms()},
                              {"count", sum.count},
                              {"hidden_seconds", sum.hidden_seconds}};
  }
  return phases;
}

// The keys of a summary, one by one. Where `lacking` is given, one that is missing or of another type is
// named there and left as it is; else it throws Json::exception.
class Keys {
 public:
  Keys(const Json& json, std::vector<std::string>* lacking) : json_(json), lacking_(lacking) {}

  // Calls read(the key's value).
  template <typename Read>
  void take(const char* key, const Read& read) {
    if (lacking_ == nullptr) return read(json_.at(key));
    try {
      read(json_.at(key));
    } catch (const Json::exception&) {
      lacking_->push_back(key);
    }
  }
  template <typename T>
  void get(const char* key, T& into) {
    take(key, [&](const Json& value) { into = value.get<T>(); });
  }

  // Of a key that need not be there.
  template <typename Read>
  void take_if_there(const char* key, const Read& read) {
    if (json_.contains(key)) take(key, read);
  }
  template <typename T>
  void get_if_there(const char* key, T& into) {
    if (json_.contains(key)) get(key, into);
  }

 private:
  const Json& json_;
  std::vector<std::string>* lacking_;
};

Version version_from(const Json& value) { return Version(value.get<std::int64_t>()); }
Staleness gap_from(const Json& value) { return Staleness(value.get<std::int64_t>()); }

std::vector<PolicyChange> switches_from(const Json& value) {
  std::vector<PolicyChange> switches;
  for (const Json& change : value) {
    switches.push_back({change.at("policy").get<std::string>(), version_from(change.at("version")),
                        change.at("seconds").get<double>(), threshold_from(change.at("threshold"))});
  }
  return switches;
}

std::vector<StragglerSummary> stragglers_from(const Json& value) {
  std::vector<StragglerSummary> stragglers;
  for (const Json& slow : value) {
    stragglers.push_back({worker_from(slow.at("worker")), slow.at("relative").get<double>(),
                          slow.at("individual").get<double>(), slow.at("iteration_seconds").get<double>()});
  }
  return stragglers;
}

std::array<PhaseSum, kPhaseCount> phases_from(const Json& value) {
  std::array<PhaseSum, kPhaseCount> phases;
  for (std::size_t i = 0; i < kPhaseCount; ++i) {
    const Json& phase = value.at(kPhaseNames[i]);
    phases[i] = {phase.at("total_seconds").get<double>(), phase.at("count").get<std::int64_t>(),
                 phase.value("hidden_seconds", 0.0)};
  }
  return phases;
}

// What other programs than the last one's version may have left out is in `lacking` (Keys).
RunSummary summary_from(const Json& json, std::vector<std::string>* lacking = nullptr) {
  RunSummary s;
  s.status = json.at("status").get<std::string>();
  Keys keys(json, lacking);
  keys.get_if_there("reason", s.reason);
  bool simulated = false;
  keys.get_if_there("simulated", simulated);
  if (simulated) {
    keys.take("seed", [&](const Json& value) { s.simulated_seed = value.get<std::uint64_t>(); });
  }
  keys.take_if_there("trace", [&](const Json& value) { s.trace = value.get<std::string>(); });
  keys.get("policy", s.policy);
  keys.take_if_there("switches", [&](const Json& value) { s.switches = switches_from(value); });
  keys.get("nodes", s.nodes);
  keys.get("threads_per_node", s.threads_per_node);
  keys.get("iterations", s.iterations);
  keys.take_if_there("rounds", [&](const Json& value) { s.rounds = value.get<std::int64_t>(); });
  keys.get("wall_seconds", s.wall_seconds);
  keys.take("final_version", [&](const Json& value) { s.final_version = version_from(value); });
  keys.take("final_threshold", [&](const Json& value) { s.final_threshold = threshold_from(value); });
  keys.take("max_grant_gap", [&](const Json& value) { s.max_grant_gap = gap_from(value); });
  keys.take("max_clock_gap", [&](const Json& value) { s.max_clock_gap = gap_from(value); });
  keys.take("test_accuracy", [&](const Json& value) { s.test_accuracy = optional_from(value); });
  keys.take("test_loss", [&](const Json& value) { s.test_loss = optional_from(value); });
  keys.get("bytes_pushed", s.bytes_pushed);
  keys.get_if_there("bytes_pushed_early", s.bytes_pushed_early);
  keys.get("bytes_pulled", s.bytes_pulled);
  keys.get_if_there("bytes_shared", s.bytes_shared);
  keys.take_if_there("bytes_reduced",
                     [&](const Json& value) { s.bytes_reduced = value.get<std::int64_t>(); });
  keys.get_if_there("bus_bytes_per_second", s.bus_bytes_per_second);
  keys.get_if_there("exchange", s.exchange);
  keys.get_if_there("algorithms", s.algorithms);
  keys.get("pulls", s.pulls);
  keys.get("lost_nodes", s.lost_nodes);
  keys.get_if_there("lost", s.lost);
  keys.get_if_there("returned_nodes", s.returned_nodes);
  keys.get_if_there("returned", s.returned);
  keys.get_if_there("late_nodes", s.late_nodes);
  keys.get_if_there("late", s.late);
  keys.get_if_there("reconnects", s.reconnects);
  keys.get("overruns", s.overruns);
  keys.get("skipped", s.skipped);
  keys.get_if_there("iterations_lost", s.iterations_lost);
  keys.get_if_there("iterations_undone", s.iterations_undone);
  keys.get_if_there("dropped", s.dropped);
  keys.get_if_there("generation", s.generation);
  keys.take_if_there("resumed_from_version",
                     [&](const Json& value) { s.resumed_from = version_from(value); });
  keys.take_if_there("checkpoints", [&](const Json& value) {
    s.checkpoints = {value.get<std::int64_t>(), json.value("checkpoints_failed", std::int64_t{0})};
  });
  keys.get("malformed", s.malformed);
  keys.get("parameter_reads", s.parameter_reads);
  keys.get("server_reads", s.server_reads);
  keys.take_if_there("staleness", [&](const Json& value) {
    s.staleness = {staleness_from(value.at("clocks")), staleness_from(value.at("gradients"))};
  });
  keys.get_if_there("lines_dropped", s.lines_dropped);
  keys.get_if_there("samples_left_out", s.samples_left_out);
  keys.take_if_there("pipeline", [&](const Json& value) {
    s.pipeline = {value.at("stages").get<std::int64_t>(), value.at("micro_batches").get<std::int64_t>(),
                  value.at("bubble_share").get<double>(),
                  value.at("peak_activation_bytes").get<std::vector<std::int64_t>>()};
    const auto seconds = [&](const char* key) { return value.value(key, std::vector<double>()); };
    s.pipeline->busy_seconds = seconds("busy_seconds");
    s.pipeline->idle_for_previous_seconds = seconds("idle_for_previous_seconds");
    s.pipeline->idle_for_next_seconds = seconds("idle_for_next_seconds");
    s.pipeline->chunks = value.value("chunks", std::int64_t{1});
    s.pipeline->layers = value.value("layers", std::vector<std::int64_t>());
    s.pipeline->parameters = value.value("parameters", std::vector<std::int64_t>());
  });
  keys.take_if_there("trace_events", [&](const Json& value) {
    s.traced = {value.get<std::int64_t>(), json.value("trace_events_left_out", std::int64_t{0})};
  });
  keys.take_if_there("batch_sizes", [&](const Json& value) { s.batch_sizes = batch_sizes_from(value); });
  keys.take_if_there("stragglers", [&](const Json& value) { s.stragglers = stragglers_from(value); });
  keys.take("phases", [&](const Json& value) { s.phases = phases_from(value); });
  keys.get("unaccounted_seconds", s.unaccounted_seconds);
  return s;
}

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
  const RunSummary& s = summary;
  Json json = {{"status", s.status}};
  if (!s.reason.empty()) json["reason"] = s.reason;
  if (s.simulated_seed) {
    json["simulated"] = true;
    json["seed"] = *s.simulated_seed;
  }
  if (s.trace) json["trace"] = *s.trace;
  if (!s.exchange.empty()) json["exchange"] = s.exchange;
  json["policy"] = s.policy;
  for (const PolicyChange& change : s.switches) {
    json["switches"].push_back({{"policy", change.policy},
                                {"version", change.version.value},
                                {"seconds", change.seconds},
                                {"threshold", threshold_json(change.threshold)}});
  }
  json["nodes"] = s.nodes;
  json["threads_per_node"] = s.threads_per_node;
  json["workers"] = s.workers();
  json["iterations"] = s.iterations;
  if (s.rounds) json["rounds"] = *s.rounds;
  json["wall_seconds"] = s.wall_seconds;
  json["final_version"] = s.final_version.value;
  json["final_threshold"] = threshold_json(s.final_threshold);
  json["max_grant_gap"] = s.max_grant_gap.value;
  json["max_clock_gap"] = s.max_clock_gap.value;
  json["test_accuracy"] = optional_json(s.test_accuracy);
  json["test_loss"] = optional_json(s.test_loss);
  json["bytes_pushed"] = s.bytes_pushed;
  json["bytes_pushed_early"] = s.bytes_pushed_early;
  json["bytes_pulled"] = s.bytes_pulled;
  json["bytes_shared"] = s.bytes_shared;
  if (s.bytes_reduced) json["bytes_reduced"] = *s.bytes_reduced;
  if (s.bus_bytes_per_second > 0) json["bus_bytes_per_second"] = s.bus_bytes_per_second;
  if (!s.algorithms.empty()) json["algorithms"] = s.algorithms;
  json["pulls"] = s.pulls;
  json["lost_nodes"] = s.lost_nodes;
  if (!s.lost.empty()) json["lost"] = s.lost;
  if (s.returned_nodes > 0) json["returned_nodes"] = s.returned_nodes;
  if (!s.returned.empty()) json["returned"] = s.returned;
  if (s.late_nodes > 0) json["late_nodes"] = s.late_nodes;
  if (!s.late.empty()) json["late"] = s.late;
  if (s.reconnects > 0) json["reconnects"] = s.reconnects;
  json["overruns"] = s.overruns;
  json["skipped"] = s.skipped;
  json["iterations_lost"] = s.iterations_lost;
  if (s.iterations_undone > 0) json["iterations_undone"] = s.iterations_undone;
  json["dropped"] = s.dropped;
  if (s.resumed_from) {
    json["generation"] = s.generation;
    json["resumed_from_version"] = s.resumed_from->value;
  }
  if (s.checkpoints) {
    json["checkpoints"] = s.checkpoints->written;
    json["checkpoints_failed"] = s.checkpoints->failed;
  }
  json["malformed"] = s.malformed;
  json["parameter_reads"] = s.parameter_reads;
  json["server_reads"] = s.server_reads;
  if (s.staleness) {
    json["staleness"] = {{"clocks", staleness_json(s.staleness->clocks)},
                         {"gradients", staleness_json(s.staleness->gradients)}};
  }
  if (s.lines_dropped > 0) json["lines_dropped"] = s.lines_dropped;
  if (s.samples_left_out > 0) json["samples_left_out"] = s.samples_left_out;
  if (s.pipeline) {
    json["pipeline"] = {{"stages", s.pipeline->stages},
                        {"micro_batches", s.pipeline->micro_batches},
                        {"chunks", s.pipeline->chunks},
                        {"bubble_share", s.pipeline->bubble_share},
                        {"peak_activation_bytes", s.pipeline->peak_activation_bytes}};
    if (!s.pipeline->busy_seconds.empty()) {
      json["pipeline"]["busy_seconds"] = s.pipeline->busy_seconds;
      json["pipeline"]["idle_for_previous_seconds"] = s.pipeline->idle_for_previous_seconds;
      json["pipeline"]["idle_for_next_seconds"] = s.pipeline->idle_for_next_seconds;
    }
    if (!s.pipeline->layers.empty()) {
      json["pipeline"]["layers"] = s.pipeline->layers;
      json["pipeline"]["parameters"] = s.pipeline->parameters;
    }
  }
  if (s.traced) {
    json["trace_events"] = s.traced->events;
    json["trace_events_left_out"] = s.traced->left_out;
  }
  if (s.batch_sizes) {
    json["batch_sizes"] = {{"last", s.batch_sizes->last},
                           {"smallest", s.batch_sizes->smallest},
                           {"largest", s.batch_sizes->largest}};
  }
  for (const StragglerSummary& slow : s.stragglers) {
    json["stragglers"].push_back({{"worker", to_string(slow.worker)},
                                  {"relative", slow.relative},
                                  {"individual", slow.individual},
                                  {"iteration_seconds", slow.iteration_seconds}});
  }
  json["phases"] = phases_json(s);
  json["unaccounted_seconds"] = s.unaccounted_seconds;
  // Bytes that are not UTF-8 (a reason may quote a peer) are replaced rather than refused.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

namespace {

Result<RunSummary> parsed(const std::string& text, std::vector<std::string>* lacking) {
  try {
    RunSummary summary = summary_from(parse_shallow<Json>(text), lacking);
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
