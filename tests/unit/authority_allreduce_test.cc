// What the authority does for nodes that sum gradients among themselves.
#include "common/config/local_endpoint.h"
#include "tests/unit/reducing_fixture.h"

namespace paceline::server {
namespace {

// Two groups of two stages, of three clocks.
RunConfig reducing_stages() {
  RunConfig config = reducing_run();
  config.cluster.nodes = 4;
  config.pipeline.stages = 2;
  config.exchange.on_loss = OnLoss::kStop;
  config.train.total_iterations = 12;
  return config;
}

TEST_CASE("nodes are told of each other once all have said where they are reached") {
  Reducing run;
  run.send(kNode1, wire::Peers{0, {"10.0.0.2:7"}});
  CHECK(run.sent.of<wire::Peers>(kNode1).empty());
  run.send(kNode0, wire::Peers{0, {"10.0.0.1:7"}});
  for (const Peer node : {kNode0, kNode1}) {
    const auto received = run.sent.of<wire::Peers>(node);
    REQUIRE(received.size() == 1);
    CHECK(received[0].token == 70);
    CHECK(received[0].endpoints == std::vector<std::string>{"10.0.0.1:7", "10.0.0.2:7"});
  }
}

TEST_CASE("in a run with keys the nodes of a formation are told one key, and without none") {
  RunConfig config = reducing_run();
  const bool has_keys = GENERATE(false, true);
  if (has_keys) config.security.keys = "keys";
  Reducing run(config);
  run.reached_at("10.0.0.1:7", "10.0.0.2:7");
  run.shard_has(0);
  run.step(0);
  for (const Peer node : {kNode0, kNode1}) {
    wire::Peers reported;
    reported.endpoints = {"10.0.0.1:9"};
    reported.formation = 1;
    reported.version = Version(1);
    run.send(node, reported);
  }
  const auto received_0 = run.sent.of<wire::Peers>(kNode0);
  const auto received_1 = run.sent.of<wire::Peers>(kNode1);
  CHECK((received_0.front().key == received_1.front().key && received_0.front().key.has_value() == has_keys));
  REQUIRE((received_0.back().formation == 2 && received_1.back().formation == 2));
  CHECK((received_0.back().key == received_1.back().key && received_0.back().key.has_value() == has_keys));
  CHECK((received_0.back().key == received_0.front().key) == !has_keys);
}

TEST_CASE("nodes of which one is reached on its own machine alone end the run, which says what to do") {
  Reducing run;
  run.reached_at("127.0.0.1:7", "10.0.0.2:7");
  CHECK(run.sent.of<wire::Peers>(kNode1).empty());
  REQUIRE(run.over());
  CHECK(run.authority->result().message() ==
        "node 0 is reached at 127.0.0.1:7, where no other machine comes, and node 1 at 10.0.0.2:7; " +
            std::string(kLoopbackAdvice) + " or cluster.mesh_address");
  CHECK(run.sent.of<wire::RunOver>(kNode1).size() == 1);
}

TEST_CASE("nodes that all are on one machine reach each other at loopback") {
  Reducing run;
  run.reached_at("127.0.0.1:7", "[::1]:7");
  CHECK(run.sent.of<wire::Peers>(kNode0).size() == 1);
}

// After that grant node 0 leaves the version.
TEST_CASE("the state of a version that is saved is asked of node 0 ahead of its next grant") {
  RunConfig config = reducing_run();
  config.checkpoint.every_clocks = 2;
  ReducingFromStart run(config);
  run.step(0);
  CHECK(run.sent.of<wire::StateWanted>(kNode0).empty());
  run.step(1);
  const auto asked = run.place_of<wire::StateWanted>([](const auto& w) { return w.version == Version(2); });
  CHECK(asked < run.grant_of(2));
  const auto decisions = run.sent.of<wire::ApplyDecision>(kShard0);
  CHECK((decisions.back().save && decisions.back().version_after == Version(2)));
  CHECK(run.sent.of<wire::StateWanted>(kNode1).empty());
}

TEST_CASE("a version that waits for its evaluation is kept by node 0 from before its next grant on") {
  RunConfig config = reducing_run();
  config.train.eval_every_clocks = 1;
  config.train.total_iterations = 20;
  ReducingFromStart run(config);
  for (std::int64_t clock = 0; clock < 3; ++clock) run.step(clock);
  const auto evaluate = run.sent.of<wire::Evaluate>(kNode0);
  REQUIRE(evaluate.size() == 2);  // the third is skipped
  CHECK((evaluate[0].version == Version(1) && !evaluate[0].later));
  CHECK((evaluate[1].version == Version(2) && evaluate[1].later));
  CHECK(run.place_of<wire::Evaluate>([](const auto& e) { return e.later; }) < run.grant_of(2));
  run.sent.clear();
  run.authority->node_reconnected(NodeId(0));  // which may have missed it
  CHECK(run.place_of<wire::Evaluate>([](const auto& e) { return e.later; }) < run.grant_of(3));
  run.send(kNode0, wire::EvaluationReport{Version(1), {1.0, 1, 10}, ""});
  CHECK_FALSE(run.sent.of<wire::Evaluate>(kNode0).back().later);
}

TEST_CASE("the iterations of an evaluation's row are mini-batches with local steps too") {
  RunConfig config = reducing_run();
  config.train.local_steps = 10;
  config.train.eval_every_clocks = 1;
  config.train.total_iterations = 200;
  ReducingFromStart run(config);
  run.step(0);
  run.send(kNode0, wire::EvaluationReport{Version(1), {1.0, 1, 10}, ""});
  CHECK(read_curve(run.config.run.out)->back().iterations == 20);
}

// Each node of a group has a stage alone.
TEST_CASE(
    "of stages the first group gives its state, and node 0 what it evaluates, ahead of its next grants") {
  RunConfig config = reducing_stages();
  config.checkpoint.every_clocks = 2;
  config.train.eval_every_clocks = 2;
  ReducingFromStart run(config);
  run.step(0);
  CHECK(run.sent.of<wire::Evaluate>(kNode1).empty());
  run.step(1);
  CHECK(run.sent.of<wire::StateWanted>(kNode0).size() == 1);
  CHECK(run.sent.of<wire::StateWanted>(kNode1).size() == 1);
  for (const std::uint32_t node : {2U, 3U}) {  // the second group
    CHECK(run.sent.of<wire::StateWanted>(Peer::of(NodeId(node))).empty());
    CHECK(run.sent.of<wire::Evaluate>(Peer::of(NodeId(node))).empty());
  }
  const auto kept = run.sent.of<wire::Evaluate>(kNode1);
  REQUIRE(kept.size() == 1);
  CHECK((kept[0].version == Version(2) && kept[0].later));
  const auto any = [](const auto&) { return true; };
  CHECK(run.place_of<wire::Evaluate>(any, kNode1) < run.grant_of(2, kNode1));
  CHECK(run.place_of<wire::StateWanted>(any, kNode1) < run.grant_of(2, kNode1));
  REQUIRE(run.sent.of<wire::Evaluate>(kNode0).size() == 1);
  CHECK_FALSE(run.sent.of<wire::Evaluate>(kNode0)[0].later);
  run.sent.clear();
  run.authority->node_reconnected(NodeId(1));  // which may have missed it
  REQUIRE(run.sent.of<wire::Evaluate>(kNode1).size() == 1);
  CHECK(run.sent.of<wire::Evaluate>(kNode1)[0].later);
}

// The first group sends what is left to be sent; those that sum together have chosen alike.
TEST_CASE("after the last step nobody needs a second group, and each stage's algorithms are in the summary") {
  ReducingFromStart run(reducing_stages());
  for (std::int64_t clock = 0; clock < 3; ++clock) run.step(clock);
  run.authority->lost(Peer::of(NodeId(3)), "its connection broke", run.now);
  CHECK_FALSE(run.over());
  run.shard_has(3);
  run.model_is_evaluated(Version(3));
  for (const std::uint32_t node : {2U, 1U, 0U}) {
    wire::NodeReport report;
    report.node = NodeId(node);
    report.workers.push_back({WorkerId(node, 0), {}, 3, 0, 0});
    report.algorithms = {"up to 64 floats: " + std::string(node == 1 ? "tree" : "ring")};
    run.send(Peer::of(NodeId(node)), report);
  }
  run.shard_reports(0);
  REQUIRE(run.over());
  CHECK(run.summary().status == "ok");
  CHECK(run.summary().algorithms ==
        std::vector<std::string>{"stage 0, up to 64 floats: ring", "stage 1, up to 64 floats: tree"});
}

TEST_CASE("a stage that is lost ends the run before any heartbeat, and is named with its group") {
  ReducingFromStart run(reducing_stages());
  run.step(0);
  run.authority->lost(Peer::of(NodeId(3)), "its connection broke", run.now);
  REQUIRE(run.over());
  CHECK_THAT(run.authority->result().message(),
             Catch::Contains("node 3 lost: its connection broke") && Catch::Contains("stage 1 of group 1"));
}

TEST_CASE("after the last step a node of the first group is needed until its state is here") {
  ReducingFromStart run(reducing_stages());
  for (std::int64_t clock = 0; clock < 3; ++clock) run.step(clock);
  run.authority->lost(kNode1, "its connection broke", run.now);
  CHECK_THAT(run.authority->result().message(), Catch::Contains("node 1 lost: its connection broke"));
}

// Its loop has ended where the others need it.
TEST_CASE("a node that ends early in a run that needs every node is the lost one") {
  RunConfig config = reducing_run();
  config.exchange.on_loss = OnLoss::kStop;
  ReducingFromStart run(config);
  run.step(0);
  run.send(kNode1, wire::Leave{"its training loop has ended", {}, /*finished=*/true});
  REQUIRE(run.over());
  const auto shown = run.authority->status([](Peer) { return std::nullopt; }, run.now);
  CHECK((shown.workers[1].state == "lost" && shown.nodes_lost == 1));
  const RunSummary summary = run.summary();
  CHECK((summary.status == "failed" && summary.lost_nodes == 1));
  CHECK_THAT(summary.reason, Contains("node 1 lost: its training loop has ended"));
}

TEST_CASE("where others go on a node may end early, and when all have, nobody has the parameters") {
  Reducing run;
  std::vector<std::string> reported;
  run.log = Log::to([&](LogLevel, const std::string& text) { reported.push_back(text); });
  run.shard_has(0);
  run.step(0);
  for (const Peer node : {kNode1, kNode0}) {
    CHECK(run.authority->training());
    run.send(node, wire::Leave{"its training loop has ended", {}, /*finished=*/true});
  }
  REQUIRE(run.over());
  const RunSummary summary = run.summary();
  CHECK((summary.status == "failed" && summary.lost_nodes == 0));
  CHECK(summary.reason == "no node is left that has the run's parameters");
  CHECK(std::ranges::count(reported, "every node has finished early, and the run ends") == 0);
}

TEST_CASE("who ends a run by its loss is needed by exchange.on_loss, or until the first step") {
  RunConfig config = reducing_run();
  config.exchange.on_loss = OnLoss::kStop;
  ReducingFromStart run(config);
  const bool has_stepped = GENERATE(false, true);
  if (has_stepped) run.step(0);
  run.authority->lost(kNode1, "its connection broke", run.now);
  CHECK(run.authority->result().message() ==
        std::string("node 1 lost: its connection broke (") +
            (has_stepped ? "exchange.on_loss: stop"
                         : "exchange.kind: allreduce needs every node until its first step") +
            ")");
}

// A checkpoint's state that comes as training ends is an older one.
TEST_CASE("the run ends with the parameters of its last version") {
  ReducingFromStart run;
  for (std::int64_t clock = 0; clock < 3; ++clock) run.step(clock);
  run.shard_has(2);
  CHECK(run.sent.of<wire::Pull>(kShard0).empty());
  run.shard_has(3);
  REQUIRE(run.sent.of<wire::Pull>(kShard0).size() == 1);
  CHECK(run.sent.of<wire::Pull>(kShard0)[0].min_version == Version(3));
}

TEST_CASE("a sum that is not finite ends the run, of which no iteration is skipped for that") {
  ReducingFromStart run;
  run.step(0);
  run.leaves_out(0, 1);
  REQUIRE(run.over());
  const RunSummary summary = run.summary();
  CHECK(summary.reason == "worker 0.0 at clock 1: not finite: the sum of all gradients is not finite");
  CHECK((summary.status == "failed" && summary.skipped == 0));
}

TEST_CASE("parameters that do not come end the run, which says from whom") {
  ReducingFromStart run;
  for (std::int64_t clock = 0; clock < 3; ++clock) run.step(clock);
  for (const std::uint32_t node : {0U, 1U}) run.node_reports(node);
  run.pass(Checkpoints::kLeases * run.config.cluster.lease);
  CHECK(run.authority->result().is_ok());
  run.pass(run.config.cluster.lease);
  CHECK_THAT(run.authority->result().message(),
             Contains("the parameters of version 3 have not come from node 0 within "));
}

TEST_CASE("what nodes have sent each other is known from their heartbeats, also of one that is lost") {
  Reducing run;
  run.shard_has(0);
  run.step(0);
  const auto beats = [&](std::uint32_t node, std::int64_t bytes, std::chrono::milliseconds reducing) {
    wire::Heartbeat beat;
    beat.traffic.reduced = bytes;
    beat.traffic.reducing = reducing;
    REQUIRE(run.authority->on_heartbeat(NodeId(node), beat).is_ok());
  };
  const auto moved = [&] { return run.authority->status([](Peer) { return std::nullopt; }, run.now).moved; };
  beats(0, 40, 100ms);
  beats(1, 60, 300ms);
  beats(0, 50, 200ms);  // of all so far
  CHECK(moved() == Traffic{.reduced = 110, .reducing = 500ms});
  run.authority->lost(kNode1, "its connection broke", run.now);
  CHECK(moved().reduced == 110);
  run.authority->fail(aborted("enough is known"), run.now);
  REQUIRE(run.over());
  CHECK(run.summary().bytes_reduced == 60);  // node 0 has reported nothing
  CHECK(run.summary().bus_bytes_per_second == Approx(60 / 0.3));
}

TEST_CASE("bytes that nodes report to have sent to each other are in the summary") {
  ReducingFromStart run;
  for (std::int64_t clock = 0; clock < 3; ++clock) run.step(clock);
  run.shard_has(3);
  run.model_is_evaluated(Version(3));
  for (const std::uint32_t node : {0U, 1U}) {
    wire::NodeReport report;
    report.node = NodeId(node);
    report.workers.push_back({WorkerId(node, 0), {}, 3, 0, 0});
    report.bytes_reduced = 40 + node;
    report.reducing = std::chrono::milliseconds(150);
    if (node == 0) report.algorithms = {"up to 64 floats: ring 1 ms: ring"};
    run.send(Peer::of(NodeId(node)), report);
  }
  run.shard_reports(0);
  REQUIRE(run.over());
  CHECK(run.summary().exchange == "allreduce");
  CHECK(run.summary().bytes_reduced == 81);
  CHECK(run.summary().bus_bytes_per_second == Approx(81 / 0.3));
  CHECK(run.summary().algorithms == std::vector<std::string>{"up to 64 floats: ring 1 ms: ring"});
}

}  // namespace
}  // namespace paceline::server
