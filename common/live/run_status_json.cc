// RunStatus as JSON and back. The only file of this library that sees JSON.
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "common/files/shallow_json.h"
#include "common/live/run_status.h"

namespace paceline {
namespace {

using Json = nlohmann::ordered_json;

Json number(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

std::optional<double> number_from(const Json& json, const char* key) {
  const Json& value = json.at(key);
  return value.is_null() ? std::nullopt : std::optional<double>(value.get<double>());
}

// "3.1"; anything else throws what a value of another type does.
WorkerId worker_from(const Json& json) {
  const auto text = json.get<std::string>();
  const std::optional<WorkerId> worker = parse_worker(text);
  if (worker) return *worker;
  throw Json::type_error::create(302, "a worker must be like \"1.2\", but is \"" + text + "\"", &json);
}

Json worker_json(const WorkerStatus& worker) {
  Json json = {{"worker", to_string(worker.worker)},
               {"node", worker.worker.node.value},
               {"clock", worker.clock.value},
               {"state", worker.state},
               {"waits_for", worker.waits_for}};
  if (worker.score) {
    json["relative_score"] = number(worker.score->relative);
    json["individual_score"] = number(worker.score->individual);
    json["iteration_seconds"] = number(worker.score->iteration_seconds);
  }
  if (worker.samples) json["samples"] = *worker.samples;
  if (worker.times) {
    json["wall_ns"] = worker.times->wall;
    json["phases_ns"] = worker.times->phases;
  }
  return json;
}

WorkerStatus worker_status_from(const Json& json) {
  WorkerStatus worker;
  worker.worker = worker_from(json.at("worker"));
  worker.clock = Clock(json.at("clock").get<std::int64_t>());
  worker.state = json.at("state").get<std::string>();
  worker.waits_for = json.at("waits_for").get<std::string>();
  if (json.contains("relative_score")) {
    worker.score = {json.at("relative_score").get<double>(), json.at("individual_score").get<double>(),
                    json.at("iteration_seconds").get<double>()};
  }
  if (json.contains("samples")) worker.samples = json.at("samples").get<std::int64_t>();
  if (json.contains("wall_ns")) {
    worker.times = {json.at("phases_ns").get<std::array<std::int64_t, kPhaseCount>>(),
                    json.at("wall_ns").get<std::int64_t>()};
  }
  return worker;
}

Json members_json(const char* what, const std::vector<MemberStatus>& members) {
  Json list = Json::array();
  for (const MemberStatus& member : members) {
    list.push_back(
        {{what, member.number}, {"up", member.up}, {"silent_seconds", number(member.silent_seconds)}});
  }
  return list;
}

std::vector<MemberStatus> members_from(const char* what, const Json& list) {
  std::vector<MemberStatus> members;
  for (const Json& json : list) {
    members.push_back(
        {json.at(what).get<std::uint32_t>(), json.at("up").get<bool>(), number_from(json, "silent_seconds")});
  }
  return members;
}

// Throws Json::exception where a key is missing or of another type.
RunStatus status_from(const Json& json) {
  RunStatus s;
  s.run = json.at("run").get<std::string>();
  s.policy = json.at("policy").get<std::string>();
  s.state = json.at("state").get<std::string>();
  s.outcome = json.at("outcome").get<std::string>();
  s.seconds = json.at("seconds").get<double>();
  s.version = Version(json.at("version").get<std::int64_t>());
  s.min_clock = Clock(json.at("min_clock").get<std::int64_t>());
  s.max_clock = Clock(json.at("max_clock").get<std::int64_t>());
  const Json& threshold = json.at("threshold");
  s.threshold = threshold == "inf" ? Threshold::infinite() : Threshold(threshold.get<std::int64_t>());
  if (json.contains("learning_rate"))
    s.learning_rate = number_from(json, "learning_rate");  // an older server's lacks it
  s.lpr = number_from(json, "lpr_percent");
  s.train_loss = number_from(json, "train_loss");
  s.train_accuracy = number_from(json, "train_accuracy");
  s.test_loss = number_from(json, "test_loss");
  s.test_accuracy = number_from(json, "test_accuracy");
  s.iterations = json.at("iterations").get<std::int64_t>();
  s.iterations_total = json.at("iterations_total").get<std::int64_t>();
  s.skipped = json.at("skipped").get<std::int64_t>();
  s.dropped = json.at("dropped").get<std::int64_t>();
  s.iterations_lost = json.at("iterations_lost").get<std::int64_t>();
  s.samples = json.at("samples").get<std::int64_t>();
  s.iterations_per_second = number_from(json, "iterations_per_second");
  s.samples_per_second = number_from(json, "samples_per_second");
  s.done = json.at("done").get<double>();
  s.seconds_left = number_from(json, "seconds_left");
  s.nodes_lost = json.at("nodes_lost").get<std::int64_t>();
  const Json& before = json.at("before");
  s.before = {before.at("iterations").get<std::int64_t>(), before.at("skipped").get<std::int64_t>(),
              before.at("dropped").get<std::int64_t>(), before.at("iterations_lost").get<std::int64_t>(),
              before.at("nodes_lost").get<std::int64_t>()};
  s.curve_rows = json.at("curve_rows").get<std::int64_t>();
  s.waits = json.at("waits").get<std::vector<std::string>>();
  s.waits_total = json.value("waits_total", static_cast<std::int64_t>(s.waits.size()));  // an older server's
  s.stall = json.at("stall").get<std::string>();
  for (const Json& worker : json.at("stragglers")) s.stragglers.push_back(worker_from(worker));
  s.nodes = members_from("node", json.at("nodes"));
  s.shards = members_from("shard", json.at("shards"));
  s.workers_total = json.at("workers_total").get<std::uint32_t>();
  for (const Json& worker : json.at("workers")) s.workers.push_back(worker_status_from(worker));
  const Json& server = json.at("server");
  s.server = {server.at("bytes_pushed").get<std::int64_t>(), server.at("bytes_pulled").get<std::int64_t>(),
              server.at("bytes_shared").get<std::int64_t>(),
              server.at("messages_received").get<std::int64_t>(), server.at("malformed").get<std::int64_t>()};
  const Json& moved = json.at("moved");
  s.moved = {moved.at("pushed").get<std::int64_t>(), moved.at("pulled").get<std::int64_t>(),
             moved.at("shared").get<std::int64_t>(), moved.value("reduced", std::int64_t{0}),
             std::chrono::nanoseconds(moved.value("reducing_ns", std::int64_t{0}))};
  json.at("staleness").at("clocks").get_to(s.staleness_clocks);
  json.at("staleness").at("gradients").get_to(s.staleness_gradients);
  return s;
}

}  // namespace

std::string to_json(const RunStatus& s) {
  Json json = {{"run", s.run},
               {"policy", s.policy},
               {"state", s.state},
               {"outcome", s.outcome},
               {"seconds", s.seconds},
               {"version", s.version.value},
               {"min_clock", s.min_clock.value},
               {"max_clock", s.max_clock.value},
               {"gap", s.gap().value}};
  json["threshold"] = s.threshold.is_infinite() ? Json("inf") : Json(s.threshold.value());
  json["learning_rate"] = number(s.learning_rate);
  json["lpr_percent"] = number(s.lpr);
  json["train_loss"] = number(s.train_loss);
  json["train_accuracy"] = number(s.train_accuracy);
  json["test_loss"] = number(s.test_loss);
  json["test_accuracy"] = number(s.test_accuracy);
  json["iterations"] = s.iterations;
  json["iterations_total"] = s.iterations_total;
  json["skipped"] = s.skipped;
  json["dropped"] = s.dropped;
  json["iterations_lost"] = s.iterations_lost;
  json["samples"] = s.samples;
  json["iterations_per_second"] = number(s.iterations_per_second);
  json["samples_per_second"] = number(s.samples_per_second);
  json["done"] = s.done;
  json["seconds_left"] = number(s.seconds_left);
  json["nodes_lost"] = s.nodes_lost;
  json["before"] = {{"iterations", s.before.iterations},
                    {"skipped", s.before.skipped},
                    {"dropped", s.before.dropped},
                    {"iterations_lost", s.before.iterations_lost},
                    {"nodes_lost", s.before.nodes_lost}};
  json["curve_rows"] = s.curve_rows;
  json["waits"] = s.waits;
  json["waits_total"] = s.waits_total;
  json["stall"] = s.stall;
  json["stragglers"] = Json::array();
  for (const WorkerId worker : s.stragglers) json["stragglers"].push_back(to_string(worker));
  json["nodes"] = members_json("node", s.nodes);
  json["shards"] = members_json("shard", s.shards);
  json["workers_total"] = s.workers_total;
  json["workers"] = Json::array();
  for (const WorkerStatus& worker : s.workers) json["workers"].push_back(worker_json(worker));
  json["server"] = {{"bytes_pushed", s.server.bytes_pushed},
                    {"bytes_pulled", s.server.bytes_pulled},
                    {"bytes_shared", s.server.bytes_shared},
                    {"messages_received", s.server.messages_received},
                    {"malformed", s.server.malformed}};
  json["moved"] = {{"pushed", s.moved.pushed},
                   {"pulled", s.moved.pulled},
                   {"shared", s.moved.shared},
                   {"reduced", s.moved.reduced},
                   {"reducing_ns", s.moved.reducing.count()}};
  json["staleness"] = {{"clocks", s.staleness_clocks}, {"gradients", s.staleness_gradients}};
  return json.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

Result<RunStatus> parse_run_status(const std::string& text) {
  try {
    return status_from(parse_shallow<Json>(text));
  } catch (const Json::exception& error) {
    const std::string what = error.what();  // "[json.exception.type_error.302] type must be …"
    return data_loss("not the status of a run: " + what.substr(what.find("] ") + 2));
  }
}

}  // namespace paceline
