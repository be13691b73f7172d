// summary.json, written and read. The only file of this library that sees JSON.
#include "common/report/run_summary.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "common/files/atomic_file.h"
#include "common/files/shallow_json.h"

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
  throw Json::type_error::create(302, "worker must be like \"1.2\", but is \"" + text + "\"", &json);
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

// Throws Json::exception where a key is missing or of another type.
RunSummary summary_from(const Json& json) {
  RunSummary s;
  s.status = json.at("status").get<std::string>();
  s.reason = json.value("reason", std::string());
  if (json.value("simulated", false)) s.simulated_seed = json.at("seed").get<std::uint64_t>();
  if (json.contains("trace")) s.trace = json.at("trace").get<std::string>();
  s.policy = json.at("policy").get<std::string>();
  for (const Json& change : json.value("switches", Json::array())) {
    s.switches.push_back({change.at("policy").get<std::string>(),
                          Version(change.at("version").get<std::int64_t>()),
                          change.at("seconds").get<double>(), threshold_from(change.at("threshold"))});
  }
  s.nodes = json.at("nodes").get<std::uint32_t>();
  s.threads_per_node = json.at("threads_per_node").get<std::uint32_t>();
  s.iterations = json.at("iterations").get<std::int64_t>();
  s.wall_seconds = json.at("wall_seconds").get<double>();
  s.final_version = Version(json.at("final_version").get<std::int64_t>());
  s.final_threshold = threshold_from(json.at("final_threshold"));
  s.max_grant_gap = Staleness(json.at("max_grant_gap").get<std::int64_t>());
  s.max_clock_gap = Staleness(json.at("max_clock_gap").get<std::int64_t>());
  s.test_accuracy = optional_from(json.at("test_accuracy"));
  s.test_loss = optional_from(json.at("test_loss"));
  s.bytes_pushed = json.at("bytes_pushed").get<std::int64_t>();
  s.bytes_pushed_early = json.value("bytes_pushed_early", std::int64_t{0});
  s.bytes_pulled = json.at("bytes_pulled").get<std::int64_t>();
  s.bytes_shared = json.value("bytes_shared", std::int64_t{0});
  s.pulls = json.at("pulls").get<std::int64_t>();
  s.lost_nodes = json.at("lost_nodes").get<std::int64_t>();
  s.lost = json.value("lost", std::vector<std::string>());
  s.returned_nodes = json.value("returned_nodes", std::int64_t{0});
  s.returned = json.value("returned", std::vector<std::string>());
  s.late_nodes = json.value("late_nodes", std::int64_t{0});
  s.late = json.value("late", std::vector<std::string>());
  s.overruns = json.at("overruns").get<std::int64_t>();
  s.skipped = json.at("skipped").get<std::int64_t>();
  s.iterations_lost = json.value("iterations_lost", std::int64_t{0});
  s.dropped = json.value("dropped", std::int64_t{0});
  s.generation = json.value("generation", std::uint64_t{1});
  if (json.contains("resumed_from_version")) {
    s.resumed_from = Version(json.at("resumed_from_version").get<std::int64_t>());
  }
  if (json.contains("checkpoints")) {
    s.checkpoints = {json.at("checkpoints").get<std::int64_t>(),
                     json.value("checkpoints_failed", std::int64_t{0})};
  }
  s.malformed = json.at("malformed").get<std::int64_t>();
  s.parameter_reads = json.at("parameter_reads").get<std::int64_t>();
  s.server_reads = json.at("server_reads").get<std::int64_t>();
  if (json.contains("staleness")) {
    const Json& staleness = json.at("staleness");
    s.staleness = {staleness_from(staleness.at("clocks")), staleness_from(staleness.at("gradients"))};
  }
  if (json.contains("trace_events")) {
    s.traced = {json.at("trace_events").get<std::int64_t>(),
                json.value("trace_events_left_out", std::int64_t{0})};
  }
  if (json.contains("batch_sizes")) s.batch_sizes = batch_sizes_from(json.at("batch_sizes"));
  for (const Json& slow : json.value("stragglers", Json::array())) {
    s.stragglers.push_back({worker_from(slow.at("worker")), slow.at("relative").get<double>(),
                            slow.at("individual").get<double>(), slow.at("iteration_seconds").get<double>()});
  }
  for (std::size_t i = 0; i < kPhaseCount; ++i) {
    const Json& phase = json.at("phases").at(kPhaseNames[i]);
    s.phases[i] = {phase.at("total_seconds").get<double>(), phase.at("count").get<std::int64_t>(),
                   phase.value("hidden_seconds", 0.0)};
  }
  s.unaccounted_seconds = json.at("unaccounted_seconds").get<double>();
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
  json["pulls"] = s.pulls;
  json["lost_nodes"] = s.lost_nodes;
  if (!s.lost.empty()) json["lost"] = s.lost;
  if (s.returned_nodes > 0) json["returned_nodes"] = s.returned_nodes;
  if (!s.returned.empty()) json["returned"] = s.returned;
  if (s.late_nodes > 0) json["late_nodes"] = s.late_nodes;
  if (!s.late.empty()) json["late"] = s.late;
  json["overruns"] = s.overruns;
  json["skipped"] = s.skipped;
  json["iterations_lost"] = s.iterations_lost;
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

Result<RunSummary> parse_summary(const std::string& text) {
  try {
    RunSummary summary = summary_from(parse_shallow<Json>(text));
    PACELINE_RETURN_IF_ERROR(check_batch_sizes(summary));
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

Status write_summary(const std::filesystem::path& run_dir, const RunSummary& summary) {
  return write_file_atomically(run_dir / kSummaryFile, to_json(summary));
}

Result<RunSummary> read_summary(const std::filesystem::path& run_dir) {
  PACELINE_ASSIGN_OR_RETURN(const std::string text, read_file(run_dir / kSummaryFile, kSummaryBytesMax));
  Result<RunSummary> summary = parse_summary(text);
  if (!summary.is_ok()) return Status(summary.status()).with_context((run_dir / kSummaryFile).string());
  return summary;
}

}  // namespace paceline
