// What the authority says it waits for, in each state that a run can stand still in: an authority driven by
// hand, and who was last seen when is the test's to say.
#include "tests/unit/reducing_fixture.h"

namespace paceline::server {
namespace {

// Node n was last seen n + 0.4 s ago, shard 1 0.2 s ago; shard 0 is the authority's own.
std::optional<std::chrono::nanoseconds> seen_long_ago(Peer peer) {
  if (peer.is_node()) return 1s * peer.number + 400ms;
  if (peer == kShard0) return std::nullopt;
  return 200ms;
}

std::vector<std::string> waits_of(const Run& run) {
  std::vector<std::string> texts;
  for (const Wait& wait : run.authority->waits(seen_long_ago)) texts.push_back(wait.text);
  return texts;
}
using Texts = std::vector<std::string>;

// `run_of(n)`: n nodes of one thread each.
RunConfig run_of(std::uint32_t nodes) {
  RunConfig config = small_run();
  config.cluster.nodes = nodes;
  config.train.total_iterations = 3 * nodes;
  return config;
}
void gather_all(Run& run) {
  const Layout layout = layout_of(8);
  run.authority->shard_joined(ShardId(1));
  for (std::uint32_t i = 0; i < run.config.cluster.nodes; ++i) {
    run.authority->node_joined(NodeId(i), layout, run.now);
  }
  for (const std::uint32_t k : {0U, 1U}) {
    run.send(Peer::of(ShardId(k)), wire::ShardReady{ShardId(k), layout.hash()});
  }
}

TEST_CASE("the start names who is missing, and who was refused why") {
  Run run;
  run.authority->node_joined(NodeId(0), layout_of(8), run.now);
  run.authority->join_refused(kNode1, "node 1: threads 3, expected 1");
  CHECK(waits_of(run) ==
        Texts{"training has not begun: node 1, shard 1 have not joined; refused: node 1: threads "
              "3, expected 1"});
}

TEST_CASE("who is held waits for the worker that has not reported") {
  TrainingRun run;
  run.train(0, 1);
  run.iterate(0, 1);
  CHECK(waits_of(run) ==
        Texts{"worker 0.0 waits for version 2: worker 1.0 (node 1, last seen 1.4 s ago, clock 1) "
              "has not reported"});
}

TEST_CASE("many who wait for many are one line, which names some of them") {
  Run run(run_of(8));
  gather_all(run);
  for (const std::uint32_t node : {0U, 1U}) run.iterate(node, 0);
  CHECK(waits_of(run) ==
        Texts{"2 workers wait for version 1: worker 2.0 (node 2, last seen 2.4 s ago, clock 0), "
              "worker 3.0 (node 3, last seen 3.4 s ago, clock 0), worker 4.0 (node 4, last seen "
              "4.4 s ago, clock 0) and 3 more have not reported"});
}

TEST_CASE("a gradient that is not whole everywhere names the shard that lacks it") {
  TrainingRun run;
  run.iterate(0, 0);
  wire::StepReport report;
  report.worker = WorkerId(1, 0);
  report.metric = {1.0, 5, 10};
  run.send(kNode1, report);
  const std::string who =
      "worker 0.0 waits for version 1: worker 1.0 (node 1, last seen 1.4 s ago, clock 0) has "
      "reported, but its gradient is not whole on ";
  CHECK(waits_of(run) == Texts{who + "shard 0 and shard 1 (last seen 0.2 s ago)"});
  run.send(kShard0, wire::GradientArrived{ShardId(0), WorkerId(1, 0), Clock(0), 10, ""});
  CHECK(waits_of(run) == Texts{who + "shard 1 (last seen 0.2 s ago)"});
  run.send(kShard1, wire::GradientArrived{ShardId(1), WorkerId(1, 0), Clock(0), 10, ""});
  // Both go on: nobody is held, and the next version is everybody's.
  CHECK(waits_of(run) ==
        Texts{"version 2 waits: worker 0.0 (node 0, last seen 0.4 s ago, clock 1) and worker 1.0 "
              "(node 1, last seen 1.4 s ago, clock 1) have not reported"});
}

TEST_CASE("different causes are different lines, and the same wait keeps its cause") {
  Run run(run_of(3));
  gather_all(run);
  run.iterate(0, 0);
  const auto before = run.authority->waits(seen_long_ago);
  REQUIRE(before.size() == 1);
  wire::StepReport report;
  report.worker = WorkerId(1, 0);
  report.metric = {1.0, 5, 10};
  run.send(kNode1, report);
  const auto after = run.authority->waits(seen_long_ago);
  REQUIRE(after.size() == 2);
  CHECK(after[0].cause == before[0].cause);  // worker 2.0 still has not reported
  CHECK(after[1].cause == "the wait for version 1, for gradients on shard 0 and shard 1");
}

TEST_CASE("what is usual is what the slowest of those waited for usually takes") {
  TrainingRun run;
  run.pass(2s);
  run.iterate(0, 0);
  run.pass(4s);
  run.iterate(1, 0);
  run.iterate(0, 1);
  const auto waits = run.authority->waits(seen_long_ago);
  REQUIRE(waits.size() == 1);
  CHECK(waits[0].usual == 6s);
}

TEST_CASE("a stop waits for the iterations under way, wherever they stand") {
  RunConfig config = small_run();
  config.sync.policy = PolicyKind::kAsp;
  config.sync.apply = ApplyMode::kEager;
  config.sync.combine = CombineMode::kEach;
  TrainingRun run(config);
  run.iterate(0, 0);
  CHECK(waits_of(run) ==
        Texts{"version 1 waits: worker 1.0 (node 1, last seen 1.4 s ago, clock 0) has not reported"});
  run.authority->stop("stopped by a signal", run.now);
  CHECK(waits_of(run) ==
        Texts{"the stop waits: worker 0.0 (node 0, last seen 0.4 s ago, clock 1) and worker 1.0 "
              "(node 1, last seen 1.4 s ago, clock 0) have not reported"});
}

// Two of three gradients close a clock.
TEST_CASE("under backup a late worker is waited for only where nobody else is") {
  RunConfig config = run_of(3);
  config.sync.policy = PolicyKind::kBackup;
  Run run(config);
  gather_all(run);
  run.iterate(0, 0);
  run.iterate(1, 0);  // closes clock 0 without node 2, which goes on with it
  run.iterate(0, 1);
  CHECK(waits_of(run) ==
        Texts{"worker 0.0 waits for version 2: worker 1.0 (node 1, last seen 1.4 s ago, clock 1) "
              "has not reported"});
  run.authority->lost(kNode1, "its connection broke", run.now);
  CHECK(waits_of(run) ==
        Texts{"worker 0.0 waits for version 2: worker 2.0 (node 2, last seen 2.4 s ago, clock 0) "
              "has not reported"});
}

TEST_CASE("an evaluation that does not come is named, and who owes it") {
  RunConfig config = small_run();
  config.train.eval_every_clocks = 1;
  TrainingRun run(config);
  run.train(0, 1);
  REQUIRE(waits_of(run).size() == 2);
  CHECK(waits_of(run)[1] ==
        "the evaluation of version 1 by node 0 (last seen 0.4 s ago) has not come, nobody waits for it");
}

TEST_CASE(
    "an all-reduce waits for who has not said where it is reached, then for who has not made the step") {
  RunConfig config = reducing_run();
  config.cluster.nodes = 3;
  config.train.total_iterations = 9;
  ReducingFromStart run(config);
  for (const std::uint32_t node : {0U, 2U}) run.send(Peer::of(NodeId(node)), wire::Peers{0, {"10.0.0.1:7"}});
  CHECK(waits_of(run)[0] ==
        "the nodes' formation waits for node 1 (last seen 1.4 s ago) to say where the others come");
  run.send(kNode1, wire::Peers{0, {"10.0.0.2:7"}});
  for (const std::uint32_t node : {0U, 2U}) {
    wire::StepReport report;
    report.worker = WorkerId(node, 0);
    report.metric = {1.0, 5, 10};
    run.send(Peer::of(NodeId(node)), report);
  }
  CHECK(waits_of(run) ==
        Texts{"2 workers wait for version 1: worker 1.0 (node 1, last seen 1.4 s ago, clock 0) has "
              "not reported"});
}

TEST_CASE("an all-reduce waits for no node that is lost") {
  RunConfig config = reducing_run();
  config.cluster.nodes = 3;
  config.train.total_iterations = 9;
  Reducing run(config);
  run.reached_at("10.0.0.1:7", "10.0.0.2:7");
  run.send(Peer::of(NodeId(2)), wire::Peers{0, {"10.0.0.3:7"}});
  run.shard_has(0);
  run.step(0);
  const bool had_stepped = GENERATE(false, true);
  for (const std::uint32_t node : had_stepped ? std::vector{0U, 2U} : std::vector{0U}) run.steps(node, 1);
  run.authority->lost(Peer::of(NodeId(2)), "silent", run.now);
  CHECK(waits_of(run) ==
        Texts{"the nodes' formation waits for node 0 (last seen 0.4 s ago) and node 1 (last seen 1.4 s ago) "
              "to say where the others come",
              "worker 0.0 waits for version 2: worker 1.0 (node 1, last seen 1.4 s ago, clock 1) has not "
              "reported"});
}

// Node 0's state comes ahead of its report; a part of another node's is not here as long as that has not reported.
TEST_CASE("the end of an all-reduce names whose parameters it waits for") {
  RunConfig config = reducing_run();
  config.exchange.shard_optimizer = GENERATE(false, true);
  ReducingFromStart run(config);
  for (std::int64_t clock = 0; clock < 3; ++clock) run.step(clock);
  const std::string waits = "the end waits for the parameters of version 3 from ";
  const std::string node_0 = "node 0 (last seen 0.4 s ago)";
  const std::string node_1 = "node 1 (last seen 1.4 s ago)";
  const bool each = config.exchange.shard_optimizer;
  CHECK(waits_of(run) == Texts{waits + node_0 + (each ? " and " + node_1 : ""),
                               "the end waits for the report of " + node_0 + " and " + node_1});
  if (each) {
    run.node_reports(0);
    CHECK(waits_of(run)[0] == waits + node_1);
  }
  run.shard_has(3);
  CHECK(waits_of(run)[0].starts_with("the end waits for the final model's slice"));
}

TEST_CASE("the end names what it waits for, one after another") {
  Run run;
  run.slow_disk = true;
  run.gather();
  run.train(0, 3);
  const std::string evaluation =
      "the end waits for the evaluation of version 3 by node 0 (last seen 0.4 s ago)";
  const std::string reports =
      "the end waits for the report of node 0 (last seen 0.4 s ago) and node 1 (last seen "
      "1.4 s ago)";
  const std::string out = run.config.run.out;
  CHECK(waits_of(run) ==
        Texts{"the end waits for the final model's slice of shard 0 and shard 1 (last seen 0.2 s "
              "ago)",
              reports, evaluation});
  run.answer_model(0, 1);
  CHECK(waits_of(run)[0] == "the end waits for the final model's slice of shard 1 (last seen 0.2 s ago)");
  run.answer_model(1, 1);
  CHECK(waits_of(run) ==
        Texts{"the end waits for the final model to be written to " + out, reports, evaluation});
  run.errands.do_all(run.now);
  CHECK(waits_of(run) == Texts{reports, evaluation});
  run.node_reports(0);
  CHECK(waits_of(run)[0] == "the end waits for the report of node 1 (last seen 1.4 s ago)");
  run.node_reports(1);
  CHECK(waits_of(run) == Texts{evaluation});
  run.send(kNode0, wire::EvaluationReport{Version(3), {1.0, 5, 10}, ""});
  CHECK(waits_of(run) == Texts{"the end waits for the report of shard 0 and shard 1 (last seen 0.2 s ago)"});
  run.shards_report();
  CHECK(waits_of(run) == Texts{"the end waits for its files to be written to " + out});
  run.errands.do_all(run.now);
  CHECK(run.over());
  CHECK(waits_of(run).empty());
}

TEST_CASE("the end waits for a checkpoint's files, and for what makes one of them") {
  RunConfig config = small_run();
  config.checkpoint.every_clocks = 3;
  Run run(config);
  run.slow_disk = true;
  run.gather();
  run.train(0, 3);
  const std::string who = "the end waits for the ";
  CHECK(waits_of(run).back() ==
        who + "file of a checkpoint to be written by shard 0 and shard 1 (last seen 0.2 s ago)");
  for (const std::uint32_t k : {0U, 1U})
    run.send(Peer::of(ShardId(k)), wire::Saved{ShardId(k), Version(3), {}, ""});
  CHECK(waits_of(run).back() == who + "manifest of a checkpoint to be written to " + run.config.run.out);
}

}  // namespace
}  // namespace paceline::server
