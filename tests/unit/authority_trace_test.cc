// The authority's part of a run's trace, and what becomes of a run whose trace cannot be had.
#include <algorithm>

#include "common/files/atomic_file.h"
#include "common/trace/trace_file.h"
#include "tests/unit/authority_fixture.h"

namespace paceline::server {
namespace {

RunConfig traced_run() {
  RunConfig config = small_run();
  config.run.trace = true;
  return config;
}

void to_the_end(Run& run) {
  run.gather();
  run.train(0, 3);
  run.answer_model();
  run.nodes_report();
  run.send(kNode0, wire::EvaluationReport{Version(3), {50.0, 75, 100}, ""});
  run.ends();
}

std::vector<std::string> kinds_of(const trace::Trace& recorded) {
  std::vector<std::string> kinds;
  for (const trace::Decision& decision : recorded.decisions) kinds.emplace_back(name_of(decision.kind));
  return kinds;
}

TEST_CASE("what the authority took and decided is in the trace, which the summary counts") {
  Run run(traced_run());
  to_the_end(run);
  CHECK(run.authority->result().is_ok());
  const auto recorded = trace::read_trace_file(run.folder / "trace.json");
  REQUIRE(recorded.is_ok());
  const std::vector<std::string> kinds = kinds_of(*recorded);
  const auto count = [&](const char* kind) { return std::count(kinds.begin(), kinds.end(), kind); };
  CHECK(count("joined") == 2);
  CHECK(count("report") == 6);
  CHECK(count("grant") == 6);
  CHECK(count("hold") == 2);  // node 0 is the first of each clock; after the last nothing follows
  CHECK(count("finish") == 2);
  CHECK(count("apply") == 3);
  CHECK((count("evaluate") == 1 && count("evaluated") == 1));
  REQUIRE(run.summary().traced.has_value());
  CHECK(run.summary().traced->events == recorded->events());
  CHECK(run.summary().traced->left_out == 0);
}

TEST_CASE("a trace that cannot be written is no reason for a run to fail") {
  Run run(traced_run());
  std::filesystem::create_directory(run.folder / "trace.json");
  to_the_end(run);
  CHECK(run.authority->result().is_ok());
  CHECK(run.summary().status == "ok");
  CHECK_FALSE(run.summary().traced.has_value());
}

TEST_CASE("a node's part that is damaged costs the trace and nothing else") {
  Run run(traced_run());
  REQUIRE(write_file_atomically(run.folder / "trace-node-1.json", "nothing of the kind\n").is_ok());
  to_the_end(run);
  CHECK(run.summary().status == "ok");
  CHECK_FALSE(run.summary().traced.has_value());
}

TEST_CASE("a lost node and a run that fails are in the trace of it") {
  TrainingRun run(traced_run());
  run.iterate(0, 0);
  run.authority->lost(kNode1, "silent for 10.2 s", run.now);
  run.authority->fail(unavailable("server 1 lost"), run.now);
  REQUIRE(run.over());
  const auto recorded = trace::read_trace_file(run.folder / "trace.json");
  REQUIRE(recorded.is_ok());
  const std::vector<std::string> kinds = kinds_of(*recorded);
  CHECK(std::count(kinds.begin(), kinds.end(), "lost") == 1);
  CHECK(run.summary().status == "failed");
}

}  // namespace
}  // namespace paceline::server
