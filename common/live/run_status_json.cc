// RunStatus as JSON and back. The only file of this library that sees JSON.
#include <nlohmann/json.hpp>

#include "common/files/json_fields.h"
#include "common/files/shallow_json.h"
#include "common/live/run_status.h"

namespace paceline {
void fields(auto& io, Is<WorkerStatus> auto& worker) {
  io.must("worker", worker.worker);
  io.derived("node", worker.worker.node.value);
  io.must("clock", worker.clock);
  io.must("state", worker.state);
  io.must("waits_for", worker.waits_for);
  io.part("relative_score", worker.score, [](auto& beside, auto& score) {
    beside.must("relative_score", score.relative);
    beside.must("individual_score", score.individual);
    beside.must("iteration_seconds", score.iteration_seconds);
  });
  io.if_any("samples", worker.samples);
  io.part("wall_ns", worker.times, [](auto& beside, auto& times) {
    beside.must("wall_ns", times.wall);
    beside.must("phases_ns", times.phases);
  });
}

void fields(auto& io, Is<CountsBefore> auto& before) {
  io.must("iterations", before.iterations);
  io.must("skipped", before.skipped);
  io.must("dropped", before.dropped);
  io.must("iterations_lost", before.iterations_lost);
  io.must("nodes_lost", before.nodes_lost);
}

void fields(auto& io, Is<ServerCounts> auto& server) {
  io.must("bytes_pushed", server.bytes_pushed);
  io.must("bytes_pulled", server.bytes_pulled);
  io.must("bytes_shared", server.bytes_shared);
  io.must("messages_received", server.messages_received);
  io.must("malformed", server.malformed);
}

void fields(auto& io, Is<Traffic> auto& moved) {
  io.must("pushed", moved.pushed);
  io.must("pulled", moved.pulled);
  io.must("shared", moved.shared);
  io.may("reduced", moved.reduced);
  io.may("reducing_ns", moved.reducing);
}

void fields(auto& io, Is<RunStatus> auto& s) {
  io.must("run", s.run);
  io.must("policy", s.policy);
  io.must("state", s.state);
  io.must("outcome", s.outcome);
  io.must("seconds", s.seconds);
  io.must("version", s.version);
  io.must("min_clock", s.min_clock);
  io.must("max_clock", s.max_clock);
  io.derived("gap", s.gap());
  io.must("threshold", s.threshold);
  io.may("learning_rate", s.learning_rate);
  io.must("lpr_percent", s.lpr);
  io.must("train_loss", s.train_loss);
  io.must("train_accuracy", s.train_accuracy);
  io.must("test_loss", s.test_loss);
  io.must("test_accuracy", s.test_accuracy);
  io.must("iterations", s.iterations);
  io.must("iterations_total", s.iterations_total);
  io.must("skipped", s.skipped);
  io.must("dropped", s.dropped);
  io.must("iterations_lost", s.iterations_lost);
  io.must("samples", s.samples);
  io.must("iterations_per_second", s.iterations_per_second);
  io.must("samples_per_second", s.samples_per_second);
  io.must("done", s.done);
  io.must("seconds_left", s.seconds_left);
  io.must("nodes_lost", s.nodes_lost);
  io.must("before", s.before);
  io.must("curve_rows", s.curve_rows);
  io.must("waits", s.waits);
  io.may("waits_total", s.waits_total);
  io.must("stall", s.stall);
  io.must("stragglers", s.stragglers);
  const auto members_as = [](const char* what) {
    return [what](auto& one, auto& member) {
      one.must(what, member.number);
      one.must("up", member.up);
      one.must("silent_seconds", member.silent_seconds);
    };
  };
  io.list("nodes", s.nodes, members_as("node"));
  io.list("shards", s.shards, members_as("shard"));
  io.must("workers_total", s.workers_total);
  io.must("workers", s.workers);
  io.must("server", s.server);
  io.must("moved", s.moved);
  io.object("staleness", [&s](auto& staleness) {
    staleness.must("clocks", s.staleness_clocks);
    staleness.must("gradients", s.staleness_gradients);
  });
}

namespace {

using Json = JsonWriter::Json;
constexpr const char* kInfinite = "inf";  // a threshold without bound

}  // namespace

std::string to_json(const RunStatus& status) {
  JsonWriter writer(kInfinite);
  fields(writer, status);
  return writer.json().dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

Result<RunStatus> parse_run_status(const std::string& text) {
  try {
    const Json json = parse_shallow<Json>(text);
    JsonReader reader(json, kInfinite);
    RunStatus status;
    fields(reader, status);
    if (!json.contains("waits_total")) status.waits_total = static_cast<std::int64_t>(status.waits.size());
    return status;
  } catch (const Json::exception& error) {
    const std::string what = error.what();  // "[json.exception.type_error.302] type must be …"
    return data_loss("not the status of a run: " + what.substr(what.find("] ") + 2));
  }
}

}  // namespace paceline
