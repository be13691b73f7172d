// A stop: what the authority waits for, and how long.
#include "tests/unit/authority_fixture.h"

namespace paceline::server {
namespace {

TEST_CASE("an iteration that does not end does not hold up a stop for ever; its node is told") {
  RunConfig config = small_run();
  config.run.max_seconds = 30s;
  TrainingRun run(config);
  run.iterate(0, 0);
  const bool signal = GENERATE(true, false);
  if (signal) run.authority->stop("stopped by a signal", run.now);
  run.pass(signal ? 0s : 30s);
  run.pass(StopDeadline::kLeases * config.cluster.lease);
  CHECK(run.authority->training());
  CHECK(run.sent.of<wire::Error>(kNode1).empty());
  run.pass(1ms);
  CHECK_FALSE(run.authority->training());
  const auto received = run.sent.of<wire::Error>(kNode1);
  REQUIRE(received.size() == 1);
  CHECK(received[0].fatal);
  CHECK(received[0].message ==
        "worker 1.0 has not finished its iteration of clock 0 within 100 s of the stop");
  CHECK(run.sent.of<wire::Error>(kNode0).empty());
  run.send(kNode0, wire::EvaluationReport{Version(1), {1.0, 1, 10}, ""});
  run.answer_model();
  run.node_reports(0);
  run.disk_is_full();
  run.ends();
  CHECK(run.summary().status == (signal ? "stopped" : "ok"));
  REQUIRE(run.summary().lost.size() == 1);
  CHECK(run.summary().lost[0] == "node 1: " + received[0].message);
}

TEST_CASE("a stop waits for long iterations where iterations are long") {
  TrainingRun run;
  run.pass(60s);
  run.iterate(0, 0);
  run.authority->stop("stopped by a signal", run.now);
  run.pass(0s);
  run.pass(StopDeadline::kIterations * 60s);
  CHECK(run.authority->training());
  CHECK(run.sent.of<wire::Error>(kNode1).empty());
  run.pass(1ms);
  CHECK_FALSE(run.authority->training());
  CHECK(run.sent.of<wire::Error>(kNode1).size() == 1);
}

TEST_CASE("where sizes follow speed a stop waits for all the rounds that the slowest has left") {
  RunConfig config = small_run();
  config.train.total_iterations = 20;
  config.train.batch_balance = BatchSizing::kBySpeed;
  config.sync.policy = PolicyKind::kSsp;
  config.sync.threshold = 2;
  Run run(config);
  const auto complete = [&](std::int64_t clock) {
    const std::int64_t samples = config.train.batch_size;
    for (std::uint32_t k = 0; k < 2; ++k) {
      run.send(Peer::of(ShardId(k)),
               wire::GradientArrived{ShardId(k), WorkerId(0, 0), Clock(clock), samples, ""});
    }
    wire::StepReport report;
    report.worker = WorkerId(0, 0);
    report.clock = Clock(clock);
    report.metric = {1.0, 5, samples};
    run.send(kNode0, report);
  };
  run.gather();
  run.pass(50s);
  for (const std::int64_t clock : {0, 1}) complete(clock);
  run.authority->stop("stopped by a signal", run.now);
  complete(2);
  run.pass(0s);
  run.pass(3 * StopDeadline::kIterations * 50s);  // of node 1's rounds 0, 1 and 2
  CHECK(run.authority->training());
  CHECK(run.sent.of<wire::Error>(kNode1).empty());
  run.pass(StopDeadline::kIterations * 50s + 1ms);  // node 0 led by three: one may be under way
  CHECK_FALSE(run.authority->training());
  CHECK(run.sent.of<wire::Error>(kNode1).size() == 1);
}

TEST_CASE("with every iteration stuck a stop ends all the same, as what it was") {
  TrainingRun run;
  run.authority->stop("stopped by a signal", run.now);
  run.pass(0s);
  run.pass(StopDeadline::kLeases * run.config.cluster.lease + 1ms);
  run.answer_model();
  run.ends();
  CHECK(run.summary().status == "stopped");
  CHECK(run.summary().lost.size() == 2);
}

}  // namespace
}  // namespace paceline::server
