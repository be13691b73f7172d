// The authority from the first join through training, without sockets: what it sends, to whom, and when.
#include "tests/unit/authority_fixture.h"

namespace paceline::server {
namespace {

TEST_CASE("training begins when every node has joined and every shard is ready, and not before") {
  Run run;
  const Layout layout = layout_of(8);
  run.authority->node_joined(NodeId(0), layout, run.now);
  run.send(kShard0, wire::ShardReady{ShardId(0), layout.hash()});
  run.send(kShard1, wire::ShardReady{ShardId(1), layout.hash()});
  CHECK(run.sent.of<wire::Grant>(kNode0).empty());
  run.authority->node_joined(NodeId(1), layout, run.now);
  CHECK(run.sent.of<wire::Grant>(kNode0).size() == 1);
  CHECK(run.sent.of<wire::Grant>(kNode1).size() == 1);
}

TEST_CASE("who is missing is named when the start takes too long") {
  Run run;
  run.authority->node_joined(NodeId(0), layout_of(8), run.now);
  run.pass(59s);
  CHECK_FALSE(run.over());
  run.pass(2s);
  REQUIRE(run.over());
  CHECK(run.authority->result().code() == StatusCode::kDeadlineExceeded);
  CHECK(run.authority->result().message() == "node 1, shard 1 have not joined within 60 s");
  CHECK(run.sent.of<wire::RunOver>(kNode0).size() == 1);
  CHECK(run.summary().status == "failed");
}

TEST_CASE("a stop before training names who had not joined, and who was refused why") {
  Run run;
  run.authority->node_joined(NodeId(0), layout_of(8), run.now);
  std::string refused;
  SECTION("nobody was refused") {}
  SECTION("a node was, twice") {
    run.authority->join_refused(kNode1, "node 1: threads 3, expected 1");
    run.authority->join_refused(kNode1, "node 1: threads 2, expected 1");
    refused = "; refused: node 1: threads 2, expected 1";
  }
  SECTION("somebody was who has come since") { run.authority->join_refused(kNode0, "node 0: already taken"); }
  run.authority->stop("stopped by a signal", run.now);
  REQUIRE(run.over());
  CHECK(run.summary().status == "stopped");
  CHECK(run.summary().reason ==
        "stopped by a signal before training began; node 1, shard 1 have not joined" + refused);
}

TEST_CASE("nobody waits for a node whose program has ended before it joined") {
  RunConfig config = small_run();
  const bool may_grow = GENERATE(false, true);  // cluster.nodes: {min: 1, max: 2}
  if (may_grow) config.cluster.nodes_at_start = 1;
  Run run(config);
  run.authority->shard_joined(ShardId(1));
  run.authority->node_joined(NodeId(0), layout_of(8), run.now);
  run.authority->program_ended(NodeId(0), "status 1", run.now);  // what has joined its connection tells of
  CHECK(run.sent.of<wire::RunOver>(kNode0).empty());
  run.authority->program_ended(NodeId(1), "status 1", run.now);
  REQUIRE(run.over() == !may_grow);
  if (may_grow) return;
  CHECK(run.sent.of<wire::RunOver>(kNode0).size() == 1);
  CHECK(run.summary().status == "failed");
  CHECK(run.summary().reason == "node 1 has not joined: its program has ended with status 1");
}

TEST_CASE("programs without which the fewest nodes cannot come end the run") {
  RunConfig config = small_run();
  config.cluster.nodes = 4;
  config.cluster.nodes_at_start = 3;
  Run run(config);
  run.authority->program_ended(NodeId(3), "status 1", run.now);
  REQUIRE_FALSE(run.over());
  run.authority->program_ended(NodeId(2), "SIGKILL", run.now);
  REQUIRE(run.over());
  CHECK(
      run.summary().reason ==
      "node 2 has not joined: its program has ended with SIGKILL; at least 3 nodes are to begin, and 2 can");
}

TEST_CASE("a program that ends while training goes on is its connection's to tell of") {
  TrainingRun run;
  run.authority->program_ended(NodeId(1), "status 1", run.now);
  CHECK(run.authority->training());
}

TEST_CASE("a clock is decided once for all shards, in one sequence") {
  TrainingRun run;
  run.iterate(1, 0);
  CHECK(run.sent.of<wire::ApplyDecision>(kShard0).empty());
  run.iterate(0, 0);
  run.train(1, 2);
  for (const Peer shard : {kShard0, kShard1}) {
    const auto decisions = run.sent.of<wire::ApplyDecision>(shard);
    REQUIRE(decisions.size() == 2);
    CHECK((decisions[0].sequence == 0 && decisions[1].sequence == 1));
    REQUIRE(decisions[0].contributions.size() == 2);
    CHECK(decisions[0].contributions[0].worker == WorkerId(0, 0));  // worker order, not arrival
    CHECK(decisions[0].contributions[0].samples == 10);
    CHECK(decisions[0].version_after == Version(1));
    CHECK(decisions[0].combine == wire::Combine::kMean);
  }
}

TEST_CASE("grant and decision of one clock carry the same learning rate, and the share of a mean") {
  RunConfig config = small_run();
  config.train.optimizer.lr = 0.9;
  config.train.optimizer.schedule.warmup_versions = 3;
  TrainingRun run(config);
  run.train(0, 2);
  const auto grants = run.sent.of<wire::Grant>(kNode0);
  const auto decisions = run.sent.of<wire::ApplyDecision>(kShard1);
  CHECK(grants[0].learning_rate == Approx(0.3));
  CHECK(grants[1].learning_rate == Approx(0.6));
  CHECK(decisions[1].learning_rate == grants[1].learning_rate);
  CHECK(grants[0].local_scale == 0.5);
}

TEST_CASE("all shards hear how stale a gradient is, its worker what its next local step should be") {
  RunConfig config = small_run();
  config.sync.policy = PolicyKind::kAsp;
  config.sync.apply = ApplyMode::kEager;
  config.sync.combine = CombineMode::kEach;
  config.train.optimizer.lr = 0.6;
  config.train.optimizer.staleness = GENERATE(StalenessScaling::kNone, StalenessScaling::kInverse);
  const double divisor = config.train.optimizer.staleness == StalenessScaling::kNone ? 1.0 : 2.0;
  TrainingRun run(config);
  run.iterate(0, 0);
  run.iterate(1, 0);
  run.iterate(1, 1);  // computed with revision 0, once more, and none of its own
  for (const Peer shard : {kShard0, kShard1}) {
    const auto decisions = run.sent.of<wire::ApplyDecision>(shard);
    REQUIRE(decisions.size() == 3);
    CHECK(decisions[1].contributions[0].staleness == 1);
    CHECK(decisions[2].contributions[0].staleness == 2);
    CHECK(decisions[2].learning_rate == 0.6);  // each shard divides it
  }
  const auto grants = run.sent.of<wire::Grant>(kNode1);
  CHECK(grants.at(1).learning_rate == 0.6);
  CHECK(grants.at(2).learning_rate == 0.6 / divisor);
}

TEST_CASE("a lost node is in the report, its shards forget it, and the others go on") {
  TrainingRun run;
  run.arrive(0, 0);  // whole, but not reported: it stays
  run.iterate(1, 0);
  run.authority->lost(kNode0, "silent for 10.2 s", run.now);
  CHECK(run.sent.of<wire::NodeLost>(kShard1).size() == 1);
  REQUIRE(run.sent.of<wire::ApplyDecision>(kShard0).size() == 1);
  CHECK(run.sent.of<wire::ApplyDecision>(kShard0)[0].contributions.size() == 2);
  CHECK(run.sent.of<wire::Grant>(kNode1).size() == 2);

  for (const std::int64_t clock : {1, 2, 3, 4}) run.iterate(1, clock);  // two of them were node 0's
  CHECK(run.sent.of<wire::Evaluate>(kNode1).size() == 1);               // the lowest that is still there
  run.send(kNode1, wire::EvaluationReport{Version(5), {1.0, 1, 10}, ""});
  run.answer_model(0, 0);
  run.answer_model(1, 0);
  run.node_reports(1);
  run.shards_report();
  CHECK(run.authority->result().is_ok());
  CHECK(run.summary().lost == std::vector<std::string>{"node 0: silent for 10.2 s"});
}

TEST_CASE("what a lost worker had pushed in part is discarded on every shard") {
  TrainingRun run;
  run.send(kShard0, wire::GradientArrived{ShardId(0), WorkerId(0, 0), Clock(0), 10, ""});
  run.authority->lost(kNode0, "gone", run.now);
  CHECK(run.sent.of<wire::DiscardGradient>(kShard0).size() == 1);
  CHECK(run.sent.of<wire::DiscardGradient>(kShard1).size() == 1);
}

TEST_CASE("a shard that is lost, and a node lost before the start, end the run and are named") {
  Run run;
  SECTION("shard") {
    run.gather();
    run.authority->lost(kShard1, "silent for 10.2 s", run.now);
    CHECK(run.authority->result().message() == "server shard 1 (tcp://b:2) lost: silent for 10.2 s");
  }
  SECTION("node") {
    run.authority->node_joined(NodeId(1), layout_of(8), run.now);
    run.send(kNode1, wire::Leave{"data/test_batch.bin: no such file"});
    CHECK_THAT(run.authority->result().message(), Contains("node 1") && Contains("test_batch.bin"));
  }
  CHECK(run.over());
  CHECK(run.summary().status == "failed");
}

TEST_CASE("a NaN names worker, clock and tensor, and ends the run when it is to stop") {
  TrainingRun run;
  run.send(kShard0, wire::GradientArrived{ShardId(0), WorkerId(1, 0), Clock(0), 10, "conv1.weight"});
  CHECK(run.sent.of<wire::Evaluate>(kNode0).empty());
  run.iterate(0, 0);
  run.send(kShard1, wire::GradientArrived{ShardId(1), WorkerId(1, 0), Clock(0), 10, ""});
  wire::StepReport report;
  report.worker = WorkerId(1, 0);
  report.metric = {1.0, 0, 10};
  run.send(kNode1, report);
  run.answer_model();
  run.nodes_report();
  run.ends();
  CHECK_THAT(run.authority->result().message(),
             Contains("1.0") && Contains("clock 0") && Contains("conv1.weight"));
  CHECK(run.summary().status == "failed");
  CHECK_FALSE(run.summary().test_accuracy.has_value());
}

TEST_CASE("what a peer may not say is refused, and the run goes on") {
  TrainingRun run;
  wire::StepReport report;
  report.worker = WorkerId(0, 0);
  report.metric = {1.0, 0, 10};
  CHECK(run.refused(kNode1, report).code() == StatusCode::kInvalidArgument);  // in another's name
  report.clock = Clock(5);
  CHECK(run.refused(kNode0, report).code() == StatusCode::kFailedPrecondition);  // not granted
  CHECK(run.refused(kNode0, wire::EvaluationReport{Version(1), {1.0, 1, 10}, ""}).code() ==
        StatusCode::kOutOfOrder);
  CHECK(run.refused(kNode0, wire::NodeReport{NodeId(1), {}, 0, 0}).code() == StatusCode::kInvalidArgument);
  CHECK(run.refused(kNode0, wire::Grant{}).code() == StatusCode::kInvalidArgument);
  CHECK_FALSE(run.over());
}

TEST_CASE("a node's report comes once, after its workers' end, with each of its workers") {
  RunConfig config = small_run();
  config.cluster.threads_per_node = 2;
  config.train.total_iterations = 4;
  Run run(config);
  const auto of = [](std::vector<WorkerId> workers) {
    wire::NodeReport report;
    report.node = NodeId(1);
    for (const WorkerId worker : workers) report.workers.push_back({worker, {}, 1, 0, 0});
    return report;
  };
  const auto refusal = [&](std::vector<WorkerId> workers, StatusCode code) {
    const Status status = run.refused(kNode1, of(std::move(workers)));
    CHECK(status.code() == code);
    return status.message();
  };
  const WorkerId a(1, 0);
  const WorkerId b(1, 1);
  run.authority->node_joined(NodeId(1), layout_of(8), run.now);
  CHECK_THAT(refusal({a, b}, StatusCode::kFailedPrecondition), Contains("worker 1.0 is at clock 0"));
  run.gather();
  CHECK_THAT(refusal({a, b}, StatusCode::kFailedPrecondition),
             Contains("report of node 1: worker 1.0 is at clock 0, expected it to be finished"));
  for (std::uint32_t node = 0; node < 2; ++node) {
    for (std::uint32_t thread = 0; thread < 2; ++thread) run.iterate(node, 0, thread);
  }
  CHECK_THAT(refusal({a}, StatusCode::kInvalidArgument), Contains("got 1 workers, expected 2"));
  CHECK_THAT(refusal({a, a}, StatusCode::kInvalidArgument),
             Contains("got worker 1.0 at place 1, expected 1.1"));
  CHECK_THAT(refusal({a, WorkerId(0, 1)}, StatusCode::kInvalidArgument), Contains("got worker 0.1"));
  run.send(kNode1, of({a, b}));
  CHECK_THAT(refusal({a, b}, StatusCode::kOutOfOrder), Contains("it has reported already"));
}

TEST_CASE("an arrival that can never be decided is the end of its node, not of the run") {
  TrainingRun run;
  std::string why;
  SECTION("nobody granted it") {
    run.send(kShard1, wire::GradientArrived{ShardId(1), WorkerId(1, 0), Clock(9), 10, ""});
    why = "not granted";
  }
  SECTION("it was granted, but too early: the worker is held") {
    run.iterate(1, 0);
    run.send(kShard1, wire::GradientArrived{ShardId(1), WorkerId(1, 0), Clock(1), 10, ""});
    why = "not granted";
  }
  SECTION("the shards were told another number of samples") {
    run.send(kShard0, wire::GradientArrived{ShardId(0), WorkerId(1, 0), Clock(0), 10, ""});
    run.send(kShard1, wire::GradientArrived{ShardId(1), WorkerId(1, 0), Clock(0), 11, ""});
    why = "expected 10";
  }
  SECTION("its report said another number of samples") {
    wire::StepReport report;
    report.worker = WorkerId(1, 0);
    report.metric = {1.0, 5, 9};
    run.send(kNode1, report);
    run.send(kShard1, wire::GradientArrived{ShardId(1), WorkerId(1, 0), Clock(0), 10, ""});
    why = "expected 9";
  }
  CHECK_FALSE(run.sent.of<wire::DiscardGradient>(kShard1).empty());
  const auto errors = run.sent.of<wire::Error>(kNode1);
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].fatal);
  CHECK_THAT(errors[0].message, Contains(why));
  CHECK(run.sent.of<wire::NodeLost>(kShard0).size() == 1);
  CHECK_FALSE(run.over());
  run.iterate(0, 0);
  CHECK(run.sent.of<wire::Grant>(kNode0).size() == 2);  // the other one goes on
}

TEST_CASE("a node that a shard can serve no further is told so and lost, whatever it goes on saying") {
  TrainingRun run;
  run.iterate(0, 0);
  run.send(kShard1,
           wire::NodeLost{NodeId(1), "shard 1: refused: push from node 1 in the name of worker 0.0"});
  const auto errors = run.sent.of<wire::Error>(kNode1);
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].fatal);
  CHECK(run.sent.of<wire::NodeLost>(kShard0).size() == 1);
  CHECK(run.sent.of<wire::Grant>(kNode0).size() == 2);  // the other one goes on
  run.send(kShard1, wire::NodeLost{NodeId(1), "again"});
  CHECK(run.refused(kShard1, wire::NodeLost{NodeId(7), ""}).code() == StatusCode::kInvalidArgument);
  CHECK(run.sent.of<wire::NodeLost>(kShard0).size() == 1);
  run.authority->stop("enough", run.now);
  run.iterate(0, 1);
  run.send(kNode0, wire::EvaluationReport{Version(2), {1.0, 1, 10}, ""});
  run.answer_model(0, 0);
  run.answer_model(1, 0);
  run.node_reports(0);
  run.shards_report();
  CHECK(run.summary().lost ==
        std::vector<std::string>{"node 1: shard 1: refused: push from node 1 in the name of worker 0.0"});
}

TEST_CASE("a held grant is announced to its node") {
  TrainingRun run;
  run.iterate(0, 0);
  run.pass(100ms);
  CHECK(run.sent.of<wire::HeldNotice>(kNode0).empty());
  run.pass(150ms);
  const auto held = run.sent.of<wire::HeldNotice>(kNode0);
  REQUIRE(held.size() == 1);
  CHECK(held[0].waits_for == WorkerId(1, 0));
}

}  // namespace
}  // namespace paceline::server
