// Nodes that come while training goes on, late or again, as the authority sees them.
#include "tests/unit/authority_fixture.h"

namespace paceline::server {
namespace {

constexpr std::uint64_t kFormer = 70;
constexpr std::uint64_t kNew = 77;

// Node 1 was lost in its first iteration; node 0 has done its own.
struct LostRun : Run {
  explicit LostRun(RunConfig c = small_run()) : Run(std::move(c)) {
    gather();
    iterate(0, 0);
    authority->lost(kNode1, "its connection broke", now);
  }
  void node_1_comes(std::uint64_t incarnation = kNew) {
    REQUIRE(authority->may_come(NodeId(1)).is_ok());
    authority->node_joined(NodeId(1), layout_of(8), now, incarnation);
  }
  std::size_t grants(Peer node) { return sent.of<wire::Grant>(node).size(); }
  // Until nobody is granted anything any more: under BSP each in turn.
  void train_to_the_end() {
    for (std::int64_t clock = 1; clock < 10; ++clock) {
      for (const std::uint32_t node : {0U, 1U}) {
        const auto granted = sent.of<wire::Grant>(Peer::of(NodeId(node)));
        if (!granted.empty() && granted.back().clock == Clock(clock)) iterate(node, clock);
      }
    }
  }
};

TEST_CASE("a node that comes again takes part from its NodeReady on, and nobody waits for it before") {
  LostRun run;
  run.sent.clear();
  run.node_1_comes();
  const auto admitted = run.sent.of<wire::NodeAdmitted>(kShard1);
  REQUIRE(admitted.size() == 1);
  CHECK((admitted[0].node == NodeId(1) && admitted[0].incarnation == kNew));
  run.iterate(0, 1);
  CHECK(run.grants(kNode0) == 1);  // clock 2: it goes on
  CHECK(run.grants(kNode1) == 0);

  run.send(kNode1, wire::NodeReady{});
  REQUIRE(run.grants(kNode1) == 1);
  CHECK(run.sent.of<wire::Grant>(kNode1)[0].clock == Clock(2));
  CHECK(run.sent.of<wire::Grant>(kNode1)[0].min_version == Version(2));
  CHECK(run.refused(kNode1, wire::NodeReady{}).code() == StatusCode::kOutOfOrder);  // given twice
  CHECK(run.grants(kNode1) == 1);
}

TEST_CASE("a shard is told who is in at the start, too, wherever it comes after them") {
  Run run;
  run.authority->node_joined(NodeId(0), layout_of(8), run.now, kFormer);
  run.sent.clear();
  run.authority->shard_joined(ShardId(1));
  run.authority->node_joined(NodeId(1), layout_of(8), run.now, kNew);
  const auto admitted = run.sent.of<wire::NodeAdmitted>(kShard1);
  REQUIRE(admitted.size() == 2);
  CHECK((admitted[0].node == NodeId(0) && admitted[0].incarnation == kFormer));
  CHECK((admitted[1].node == NodeId(1) && admitted[1].incarnation == kNew));
}

TEST_CASE("each plan of other workers than before is in the log, with the clock from which it holds") {
  Run run;
  std::vector<std::string> plans;
  run.log = Log::to([&plans](LogLevel, const std::string& text) {
    if (text.starts_with("plan ")) plans.push_back(text);
  });
  run.gather();
  run.iterate(0, 0);
  CHECK(plans ==
        std::vector<std::string>{"plan 1 from clock 0, base 0, mini-batches of 128: workers 0.0, 1.0"});
  run.authority->lost(kNode1, "its connection broke", run.now);
  CHECK(plans.back() == "plan 2 from clock 1, base 2, mini-batches of 128: workers 0.0");
  run.authority->node_joined(NodeId(1), layout_of(8), run.now, kNew);
  run.iterate(0, 1);
  run.send(kNode1, wire::NodeReady{});
  for (const std::uint32_t node : {0U, 1U}) run.iterate(node, 2);
  CHECK(plans.size() == 3);
  CHECK(plans.back() == "plan 3 from clock 3, base 5, mini-batches of 128: workers 0.0, 1.0");
}

TEST_CASE("a run in which a node was lost and came again does each iteration once and says so") {
  LostRun run;
  run.node_1_comes();
  run.send(kNode1, wire::NodeReady{});
  run.train_to_the_end();
  run.send(kNode0,
           wire::EvaluationReport{run.sent.of<wire::Evaluate>(kNode0).at(0).version, {1.0, 1, 10}, ""});
  run.answer_model();
  run.nodes_report();
  run.ends();
  CHECK(run.authority->result().is_ok());
  const RunSummary summary = run.summary();
  CHECK((summary.iterations == 6 && summary.iterations_lost == 1));
  CHECK((summary.lost_nodes == 1 && summary.returned_nodes == 1 && summary.late_nodes == 0));
  CHECK(summary.returned == std::vector<std::string>{"node 1 at version 1"});
}

TEST_CASE("what the process before had sent, or a shard had found out about it, costs the new one nothing") {
  LostRun run;
  run.node_1_comes();
  run.send(kNode1, wire::NodeReady{});
  run.sent.clear();
  run.send(kShard1, wire::GradientArrived{ShardId(1), WorkerId(1, 0), Clock(0), 10, ""});
  CHECK(run.sent.of<wire::DiscardGradient>(kShard1).size() == 1);
  run.send(kShard1, wire::NodeLost{NodeId(1), "shard 1: silent for 10.1 s", kFormer});
  CHECK(run.sent.of<wire::Error>(kNode1).empty());
  CHECK(run.sent.of<wire::NodeLost>(kShard0).empty());
  run.send(kShard1, wire::NodeLost{NodeId(1), "shard 1: silent for 10.1 s", kNew});
  CHECK(run.sent.of<wire::Error>(kNode1).size() == 1);
  REQUIRE(run.sent.of<wire::NodeLost>(kShard0).size() == 1);
  CHECK(run.sent.of<wire::NodeLost>(kShard0)[0].incarnation == kNew);
}

TEST_CASE("a gradient that fits nothing is still the end of a node that has come again") {
  LostRun run;
  run.node_1_comes();
  run.send(kNode1, wire::NodeReady{});
  run.sent.clear();
  run.send(kShard1, wire::GradientArrived{ShardId(1), WorkerId(1, 0), Clock(7), 10, ""});
  CHECK(run.sent.of<wire::Error>(kNode1).size() == 1);
}

TEST_CASE("a node that is lost before it took part was nobody's loss") {
  LostRun run;
  run.node_1_comes();
  CHECK(run.refused(kNode1, wire::NodeReport{}).code() == StatusCode::kFailedPrecondition);
  run.sent.clear();
  run.authority->lost(kNode1, "its connection broke", run.now);
  CHECK(run.sent.of<wire::NodeLost>(kShard1).size() == 1);
  run.node_1_comes(kNew + 1);
  run.send(kNode1, wire::NodeReady{});
  CHECK(run.grants(kNode1) == 1);
}

TEST_CASE("a node that never says that all servers welcomed it is named, and is let go after a while") {
  LostRun run;
  run.node_1_comes();
  const auto waits = run.authority->waits([](Peer) { return std::nullopt; });
  REQUIRE_FALSE(waits.empty());
  CHECK(waits[0].text == "node 1 is let in, and has not reported that all servers welcomed it");
  run.pass(60s);
  CHECK(run.sent.of<wire::Error>(kNode1).empty());
  run.pass(1s);
  REQUIRE(run.sent.of<wire::Error>(kNode1).size() == 1);
  CHECK_THAT(run.sent.of<wire::Error>(kNode1)[0].message, Contains("cluster.start_timeout"));
  CHECK_FALSE(run.over());
  CHECK(run.authority->may_come(NodeId(1)).is_ok());
}

TEST_CASE("a node that comes as training ends is told how the run went") {
  LostRun run;
  run.node_1_comes();
  run.authority->stop("stopped by a signal", run.now);
  run.send(kNode1, wire::NodeReady{});
  CHECK(run.grants(kNode1) == 1);  // the one of the process before
  CHECK(run.authority->may_come(NodeId(1)).code() == StatusCode::kFailedPrecondition);
  run.iterate(0, 1);
  run.answer_model();
  run.send(kNode0,
           wire::EvaluationReport{run.sent.of<wire::Evaluate>(kNode0).at(0).version, {1.0, 1, 10}, ""});
  run.node_reports(0);
  run.ends();
  CHECK(run.sent.of<wire::RunOver>(kNode1).size() == 1);
}

TEST_CASE("who may not come is told why") {
  RunConfig config = small_run();
  std::string why;
  SECTION("each clock is cut for all workers of the run") {
    config.sync.policy = PolicyKind::kBackup;
    config.sync.backup_workers = 1;
    why = "with sync.backup_workers, train.batch_balance or local_balance nobody comes later";
  }
  SECTION("servers keep what its process before computed with") {
    config.sync.combine = CombineMode::kEach;
    config.train.optimizer.delay_compensation.kind = CompensationKind::kConstant;
    why = "with train.optimizer.delay_compensation no node comes back";
  }
  LostRun run(config);
  const Status status = run.authority->may_come(NodeId(1));
  CHECK(status.code() == StatusCode::kFailedPrecondition);
  CHECK_THAT(status.message(), Contains("node 1: ") && Contains(why));
}

TEST_CASE(
    "with nodes {min: 1, max: 2} training begins with one, and the other may come, and be lost before") {
  RunConfig config = small_run();
  config.cluster.nodes_at_start = 1;
  Run run(config);
  const Layout layout = layout_of(8);
  run.authority->shard_joined(ShardId(1));
  run.authority->node_joined(NodeId(1), layout, run.now, kFormer);
  CHECK(run.authority->may_lose(NodeId(1)));
  run.authority->lost(kNode1, "its connection broke", run.now);
  CHECK_FALSE(run.over());
  run.authority->node_joined(NodeId(0), layout, run.now, kFormer + 1);
  CHECK_FALSE(run.authority->may_lose(NodeId(0)));
  CHECK(run.sent.of<wire::Grant>(kNode0).empty());
  for (std::uint32_t k = 0; k < 2; ++k) {
    run.send(Peer::of(ShardId(k)), wire::ShardReady{ShardId(k), layout.hash()});
  }
  CHECK(run.sent.of<wire::Grant>(kNode0).size() == 1);
  CHECK(run.authority->may_lose(NodeId(0)));
  run.iterate(0, 0);
  run.authority->node_joined(NodeId(1), layout, run.now, kNew);
  run.send(kNode1, wire::NodeReady{});
  REQUIRE(run.sent.of<wire::Grant>(kNode1).size() == 1);
  CHECK(run.sent.of<wire::Grant>(kNode1)[0].clock == Clock(1));
}

TEST_CASE("how many are missing is said where any will do") {
  RunConfig config = small_run();
  config.cluster.nodes_at_start = GENERATE(1, 2);
  config.cluster.nodes = 3;
  Run run(config);
  run.pass(61s);
  REQUIRE(run.over());
  CHECK(run.authority->result().message() ==
        (config.cluster.nodes_at_start == 1 ? "1 more node, shard 1" : "2 more nodes, shard 1") +
            std::string(" have not joined within 60 s"));
}

}  // namespace
}  // namespace paceline::server
