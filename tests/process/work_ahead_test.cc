// A server over real sockets has time while a gradient arrives, and uses it: what is there of the gradient is
// applied before the rest comes.
#include <catch2/catch.hpp>

#include "tests/process/scripted_node.h"
#include "tests/unit/temp_folder.h"

namespace paceline::server {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kWorkAheadFloats = 6;  // three frames, and blocks, of two
constexpr std::int64_t kIterations = 20;
const WorkerId kWorker(0, 0);

RunConfig config_in(const testing::TempFolder& folder) {
  RunConfig config;
  config.run.out = folder.path();
  config.cluster.endpoints = {"ipc://" + (folder / "s0").string()};
  config.cluster.heartbeat = 50ms;
  config.cluster.frame_bytes = 2 * sizeof(float);
  config.sync.policy = PolicyKind::kAsp;
  config.sync.apply = ApplyMode::kEager;
  config.sync.combine = CombineMode::kEach;
  config.train.total_iterations = kIterations;
  config.train.optimizer.lr = 1.0;
  return config;
}

}  // namespace

TEST_CASE("frames are applied before the last one comes, by a server that waits for it") {
  const testing::TempFolder folder;
  const RunConfig config = config_in(folder);
  wire::Context context;
  RunningServer server(config, ShardId(0), context);
  REQUIRE(server.started().is_ok());
  ScriptedNode node(context, config.cluster.endpoints);
  node.send(0, join_of(config, 0, kWorkAheadFloats));
  node.receive<wire::Welcome>(0);
  for (std::int64_t at = 0; at < kWorkAheadFloats; at += 2) {
    node.send(0, wire::InitialParameters{at, at + 2 == kWorkAheadFloats}, {0, 0});
  }
  for (std::int64_t clock = 0; clock < kIterations; ++clock) {
    REQUIRE(node.receive<wire::Grant>(0).clock == Clock(clock));
    const auto push = [&](std::int64_t offset) {
      const bool last = offset == 0;
      node.send(
          0, wire::Push{kWorker, Clock(clock), offset, last, last ? 4 : 0, Version(clock), Revision(clock)},
          {1, 1});
    };
    push(4);
    push(2);
    // Its answer says that these have been read, and that the gradient before them has been applied.
    node.send(0, wire::Pull{static_cast<std::uint64_t>(clock), Version(clock), false, Revision(clock)});
    node.receive<wire::Unchanged>(0);
    push(0);
    wire::StepReport report;
    report.worker = kWorker;
    report.clock = Clock(clock);
    report.metric = {1.0, 2, 4};
    report.computed_version = Version(clock);
    report.computed_revision = Revision(clock);
    node.send(0, report);
  }
  node.receive<wire::FinishWorker>(0);
  const auto evaluate = node.receive<wire::Evaluate>(0);
  REQUIRE(evaluate.final_model);
  node.send(0, wire::EvaluationReport{evaluate.version, {3.0, 9, 10}, ""});
  wire::NodeReport over;
  over.workers.push_back({kWorker, {}, kIterations, 0, 0});
  node.send(0, over);
  node.receive<wire::RunOver>(0);
  CHECK(server.result().is_ok());
  // Two for each gradient where nothing kept it from it, as a core that is busy with others does.
  CHECK(server.server().blocks_prepared() > 0);
}

}  // namespace paceline::server
