// A node whose servers are lost, from its first session to its last, against a scripted server over a real
// socket.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <mutex>

#include "tests/unit/scripted_server.h"
#include "tests/unit/temp_folder.h"
#include "tests/unit/worker_fixture.h"
#include "worker/node.h"

namespace paceline {
namespace {

using namespace std::chrono_literals;
using testing::grant_of;
using testing::payload_of;
using testing::ScriptedServer;

constexpr Range kAll{0, 2};

// Trainers whose gradient is 1 everywhere.
class OnesTasks final : public TaskFactory {
 public:
  OnesTasks() { PACELINE_ASSERT(layout_.add("w", {2}).is_ok(), "layout"); }
  const Layout& layout() const override { return layout_; }
  void initialize(std::span<float> parameters) const override { std::ranges::fill(parameters, 0.5F); }
  Result<std::unique_ptr<Task>> make_trainer(WorkerId) override { return make(); }
  Result<std::unique_ptr<Task>> make_evaluator() override { return make(); }

 private:
  static Result<std::unique_ptr<Task>> make() {
    return std::unique_ptr<Task>(std::make_unique<testing::ScriptedTask>());
  }
  Layout layout_;
};

struct Run {
  testing::TempFolder folder;
  wire::Context context;
  RunConfig config;
  std::unique_ptr<ScriptedServer> server;
  std::unique_ptr<Node> node;
  std::future<Status> ended;

  Run() {
    config.cluster.endpoints = {"ipc://" + (folder / "0").string()};
    config.cluster.heartbeat = 10ms;
    config.cluster.lease = 1500ms;
    config.cluster.reconnect_timeout = 20s;
    config.cluster.shared_memory = SharedMemory::kOff;
    config.train.batch_size = 2;
    server = std::make_unique<ScriptedServer>(context, config.cluster.endpoints[0]);
  }
  void begin() {
    node = std::make_unique<Node>(config, NodeId(0), context, std::make_unique<OnesTasks>());
    ended = std::async(std::launch::async, [this] { return node->run(); });
  }
  // A Join, which is answered by a server of that generation. One of a node that only lost its connection, as
  // it must think at first, is refused as a server does.
  wire::Join welcome(std::uint64_t generation) {
    auto join = server->expect<wire::Join>();
    while (join && join->goes_on != 0) {
      CHECK(join->goes_on < generation);
      server->send(wire::Error{StatusCode::kFailedPrecondition, "node 0 has gone from this run", true});
      join = server->expect<wire::Join>();
    }
    REQUIRE(join);
    server->send(wire::Welcome{ShardId(0), kAll, generation, generation > 1});
    return *join;
  }
  // An iteration, from its grant to its push. The pull by which its parameters came.
  wire::Pull iterate(std::int64_t clock) {
    wire::Grant grant = grant_of(clock, Threshold(0), clock);
    grant.samples = 2;
    server->send(grant);
    const auto pull = server->expect_next<wire::Pull>();
    REQUIRE(pull);
    server->send(
        wire::Parameters{pull->request, ShardId(0), Version(clock), Revision(clock), 0, true, {Clock(clock)}},
        payload_of({7, 7}));
    const auto push = server->expect_next<wire::Push>();
    REQUIRE(push);
    CHECK(push->clock == Clock(clock));
    CHECK(push->computed_version == Version(clock));
    REQUIRE(server->expect_next<wire::StepReport>());
    return *pull;
  }
  // The first session, with an iteration in it.
  wire::Join train_once() {
    begin();
    const wire::Join join = welcome(1);
    REQUIRE(server->expect_next<wire::InitialParameters>());
    iterate(0);
    return join;
  }
  wire::NodeReport finish() {
    server->send(wire::FinishWorker{WorkerId(0, 0), "share done", {}});
    const auto report = server->expect<wire::NodeReport>();
    REQUIRE(report);
    server->send(wire::RunOver{});
    return *report;
  }
};

TEST_CASE("a node whose server is gone goes on with the next one, with nothing of what it had but its sums") {
  Run run;
  const wire::Join first = run.train_once();
  run.server.reset();
  run.server = std::make_unique<ScriptedServer>(run.context, run.config.cluster.endpoints[0]);
  const wire::Join again = run.welcome(2);
  CHECK((first.last_generation == 0 && again.last_generation == 1));
  CHECK(again.incarnation == first.incarnation);
  CHECK(run.iterate(0).have == kNoRevision);  // and no initial parameters before it
  const wire::NodeReport report = run.finish();
  CHECK(report.workers.at(0).iterations == 2);
  CHECK(report.parameter_reads == 2);
  const PhaseTotals& phases = report.workers[0].phases;
  CHECK(phases[Phase::kComputeGrads].count == 2);
  CHECK(phases[Phase::kPsApplyGrads].count == 1);  // the first was for nothing
  CHECK(phases.wall_ns < std::chrono::nanoseconds(run.config.cluster.lease).count());
  CHECK(run.ended.get().is_ok());
}

TEST_CASE("a node outlives its servers again and again, also where it emulates a cluster") {
  Run run;
  const std::filesystem::path out = run.folder / "run";
  const bool emulates = GENERATE(true, false);
  if (emulates) {
    run.config.run.out = out.string();
    run.config.emulate.base_step = 20ms;
  }
  run.train_once();
  for (const std::uint64_t generation : {2U, 3U, 4U}) {
    run.server->send(wire::RunOver{StatusCode::kUnavailable, "server shard 1 lost", true});
    CHECK(run.welcome(generation).last_generation == generation - 1);
    run.iterate(3);
  }
  CHECK(run.finish().workers.at(0).iterations == 4);
  CHECK(run.ended.get().is_ok());
  // Nothing is left of what nodes emulate it with.
  CHECK(std::filesystem::exists(out) == emulates);
  if (emulates) CHECK(std::filesystem::is_empty(out));
}

TEST_CASE("without a reconnect_timeout a node ends with its server") {
  Run run;
  run.config.cluster.reconnect_timeout = 0ns;
  run.train_once();
  CHECK_THAT(run.ended.get().message(), Catch::Matches(R"(server shard 0 \(.*\) silent for \d+\.\d s)"));
}

TEST_CASE("a node whose servers do not come back says who is missing, for how long, and what was before") {
  Run run;
  run.config.cluster.reconnect_timeout = 300ms;
  run.train_once();
  run.server.reset();
  const Status ended = run.ended.get();
  CHECK(ended.code() == StatusCode::kDeadlineExceeded);
  CHECK_THAT(ended.message(),
             Catch::Matches(R"(server shard 0 \(ipc://.*/0\) did not let node 0 join again within 1 s )"
                            R"(\(cluster\.reconnect_timeout\); before: server shard 0 \(ipc://.*/0\) )"
                            R"(silent for \d+\.\d s)"));
}

TEST_CASE("a node that its server took for lost meanwhile ends when it learns that") {
  Run run;
  run.train_once();  // and nothing more is heard of the server
  REQUIRE(run.server->expect<wire::Leave>());
  REQUIRE(run.server->expect<wire::Join>());
  run.server->send(wire::Error{StatusCode::kFailedPrecondition, "node 0: it has gone", true});
  CHECK_THAT(run.ended.get().message(),
             Catch::Contains("refuses us: node 0: it has gone; before: ") && Catch::Contains("silent for"));
}

TEST_CASE("a stop is obeyed while the servers are gone, and before the first session") {
  const bool before = GENERATE(true, false);
  Run run;
  if (before) {
    run.node = std::make_unique<Node>(run.config, NodeId(0), run.context, std::make_unique<OnesTasks>());
    run.node->request_stop("stopped by a signal");
    CHECK(run.node->run().message() == "stopped by a signal");
    return;
  }
  run.train_once();
  REQUIRE(run.server->expect<wire::Leave>());
  run.server.reset();
  run.node->request_stop("stopped by a signal");
  CHECK(run.ended.get().message() == "stopped by a signal");
}

}  // namespace
}  // namespace paceline
