// What the authority says of its run while it goes, and whom it calls slow.
#include "server/http/metrics.h"
#include "tests/unit/authority_fixture.h"
#include "tests/unit/prometheus_text.h"

namespace paceline::server {
namespace {

const LastSeen kNobodySeen = [](Peer) { return std::nullopt; };

RunStatus status_of(const Run& run) { return run.authority->status(kNobodySeen, run.now); }

TEST_CASE("before it begins a run says who is missing") {
  const Run run;
  const RunStatus s = status_of(run);
  CHECK((s.state == "gathering" && s.policy == "bsp" && s.workers_total == 2));
  CHECK((!s.nodes[0].up && s.shards[0].up && !s.shards[1].up));
  CHECK(s.workers[0].state == "absent");
  REQUIRE(s.waits.size() == 1);
  CHECK_THAT(s.waits[0], Contains("node 0, node 1, shard 1 have not joined"));
}

TEST_CASE("while it trains: clocks, the rate, who is held and for whom, samples") {
  RunConfig config = small_run();
  config.train.optimizer.schedule.warmup_versions = 2;
  TrainingRun run(config);
  run.train(0, 1);
  run.iterate(0, 1);
  const RunStatus s = status_of(run);
  CHECK((s.state == "training" && s.version == Version(1)));
  CHECK(s.learning_rate == config.train.optimizer.lr / 2);  // of the first step of two
  CHECK((s.min_clock == Clock(1) && s.max_clock == Clock(2) && s.gap() == Staleness(1)));
  CHECK((s.iterations == 2 && s.iterations_total == 6 && s.samples == 30));
  CHECK(s.done == Approx(1.0 / 3));
  CHECK((s.workers[0].state == "held" && s.workers[0].waits_for == "worker 1.0"));
  CHECK((s.workers[1].state == "computing" && s.workers[1].waits_for.empty()));
  CHECK(s.waits.size() == 1);
}

TEST_CASE("while a run advances none of its counters falls") {
  TrainingRun run;
  run.train(0, 1);
  const auto before = testing::read_prometheus(metrics_text(status_of(run), 0.0));
  run.train(1, 2);
  const auto after = testing::read_prometheus(metrics_text(status_of(run), 0.0));
  CHECK(testing::fallen_counters(before, after) == std::vector<std::string>{});
  CHECK(after.samples.at("paceline_iterations_total") == 4);
  CHECK(testing::fallen_counters(after, before).size() == 2);  // iterations and samples
}

// Of eight clocks; sizes are reviewed after the fourth, in which the second node has taken three times as long.
TEST_CASE("where sizes follow speed status, log and summary say how many samples each worker was granted") {
  RunConfig config = small_run();
  config.train.batch_balance = BatchSizing::kBySpeed;
  config.train.batch_size = 32;
  config.train.total_iterations = 16;
  Run run(config);
  std::vector<std::string> reported;
  run.log = Log::to([&](LogLevel, const std::string& text) {
    if (text.find(" by speed") != std::string::npos) reported.push_back(text);
  });
  const auto granted = [&](std::uint32_t node) {
    return run.sent.of<wire::Grant>(Peer::of(NodeId(node))).back().samples;
  };
  const auto complete = [&](std::uint32_t node, std::int64_t clock, std::int64_t samples) {
    for (std::uint32_t k = 0; k < 2; ++k) {
      const WorkerId worker(node, 0);
      run.send(Peer::of(ShardId(k)), wire::GradientArrived{ShardId(k), worker, Clock(clock), samples, ""});
    }
    wire::StepReport report;
    report.worker = WorkerId(node, 0);
    report.clock = Clock(clock);
    report.computed_version = Version(clock);
    report.metric = {1.0, 5, samples};
    run.send(Peer::of(NodeId(node)), report);
  };
  const auto samples_shown = [&] {
    const RunStatus s = status_of(run);
    return std::vector{s.workers[0].samples, s.workers[1].samples};
  };
  using Shown = std::vector<std::optional<std::int64_t>>;
  CHECK(samples_shown() == Shown{std::nullopt, std::nullopt});
  run.gather();
  CHECK(samples_shown() == Shown{32, 32});
  for (std::int64_t clock = 0; clock < 8; ++clock) {
    CHECK(samples_shown() == (clock < 4 ? Shown{32, 32} : Shown{48, 16}));
    const std::int64_t fast = granted(0), slow = granted(1);
    run.pass(fast * 1s);
    complete(0, clock, fast);
    run.pass((3 * slow - fast) * 1s);
    complete(1, clock, slow);
  }
  CHECK(reported ==
        std::vector<std::string>{"mini-batches by speed, as granted last: node 0: 48, node 1: 16"});
  run.authority->fail(aborted("enough"), run.now);
  REQUIRE(run.over());
  const std::optional<WorkerBatchSizes> sizes = run.summary().batch_sizes;
  REQUIRE(sizes);
  CHECK((sizes->last == std::vector<std::int64_t>{48, 16}));
  CHECK((sizes->smallest == std::vector<std::int64_t>{32, 16}));
  CHECK((sizes->largest == std::vector<std::int64_t>{48, 32}));
}

TEST_CASE("a node's heartbeats say where the time of its workers goes, its report what it was") {
  TrainingRun run;
  CHECK_FALSE(status_of(run).workers[0].times);
  PhaseTimes times;
  times.wall = 100;
  times[Phase::kComputeGrads] = 60;
  CHECK(run.authority->on_heartbeat(NodeId(0), wire::Heartbeat{{times}}).is_ok());
  CHECK(run.authority->on_heartbeat(NodeId(1), wire::Heartbeat{}).is_ok());
  CHECK(status_of(run).workers[0].times == times);
  CHECK_FALSE(status_of(run).workers[1].times);
  const Status wrong = run.authority->on_heartbeat(NodeId(0), wire::Heartbeat{{times, times}});
  CHECK_THAT(wrong.message(), Contains("heartbeat of node 0: got the times of 2 workers, expected 1"));
  CHECK(
      metrics_text(status_of(run), 0.0)
          .find(R"(paceline_worker_phase_seconds_total{node="0",worker="0.0",phase="COMPUTE_GRADS"} 5.99)") !=
      std::string::npos);
}

TEST_CASE("how stale gradients were is counted while it trains") {
  TrainingRun run;
  run.train(0, 2);
  std::int64_t counted = 0;
  for (const auto& [staleness, count] : status_of(run).staleness_clocks) counted += count;
  CHECK(counted == status_of(run).iterations);
}

TEST_CASE("who has reported waits for the shard that lacks its gradient") {
  TrainingRun run;
  run.send(kShard0, wire::GradientArrived{ShardId(0), WorkerId(0, 0), Clock(0), 10, ""});
  wire::StepReport report;
  report.worker = WorkerId(0, 0);
  report.metric = {1.0, 5, 10};
  run.send(kNode0, report);
  const RunStatus s = status_of(run);
  CHECK((s.workers[0].state == "pushing" && s.workers[0].waits_for == "shard 1"));
}

TEST_CASE("the rate is that of the last seconds, and the time left follows from it") {
  RunConfig config = small_run();
  config.train.total_iterations = 2000;
  TrainingRun run(config);
  CHECK_FALSE(status_of(run).seconds_left);
  for (std::int64_t clock = 0; clock < 20; ++clock) {
    run.pass(500ms);
    run.train(clock, clock + 1);
  }
  const RunStatus s = status_of(run);
  CHECK(*s.iterations_per_second == Approx(4.0));
  CHECK(*s.samples_per_second == Approx(40.0));
  CHECK(*s.seconds_left == Approx(490.0));
}

TEST_CASE("max_seconds is the nearer end where it is") {
  RunConfig config = small_run();
  config.run.max_seconds = 100s;
  TrainingRun run(config);
  run.pass(75s);
  const RunStatus s = status_of(run);
  CHECK(s.done == Approx(0.75));
  CHECK(*s.seconds_left == Approx(25.0));
}

// The second node takes three times as long.
void train_unequally(Run& run, std::int64_t from, std::int64_t to, std::chrono::nanoseconds slow = 3s) {
  for (std::int64_t clock = from; clock < to; ++clock) {
    run.pass(1s);
    run.iterate(0, clock, 0, 1s);
    run.pass(slow - 1s);
    run.iterate(1, clock, 0, slow);
  }
}

struct Warned {
  std::vector<std::string> lines;
  Log log = Log::to([this](LogLevel level, const std::string& text) {
    if (level == LogLevel::kWarn) lines.push_back(text);
  });
};

TEST_CASE("a straggler has a name in the status and in summary.json, and is warned of once") {
  RunConfig config = small_run();
  config.train.total_iterations = 80;
  config.run.straggler_warning = 0.4;
  Run run(config);
  Warned warned;
  run.log = warned.log;
  run.gather();
  train_unequally(run, 0, 30);
  const RunStatus s = status_of(run);
  CHECK((s.stragglers == std::vector<WorkerId>{WorkerId(1, 0)}));
  CHECK(s.workers[1].score->relative == Approx(1.0 / 3));
  CHECK(s.workers[1].score->individual == Approx(1.0));
  CHECK(s.workers[0].score->relative == 1.0);
  REQUIRE(warned.lines.size() == 1);
  CHECK_THAT(
      warned.lines[0],
      Contains("worker 1.0 has become slow: it computes 3000.000 ms an iteration, 0.33 of the fastest"));

  run.authority->fail(aborted("enough"), run.now);
  CHECK(run.over());
  const RunSummary summary = run.summary();
  REQUIRE(summary.stragglers.size() == 1);
  CHECK(summary.stragglers[0].worker == WorkerId(1, 0));
  CHECK(summary.stragglers[0].relative == Approx(1.0 / 3));
  CHECK_THAT(status_of(run).outcome, Contains("failed: enough"));
}

TEST_CASE("a stage that computes for longer than another is no straggler") {
  RunConfig config = small_run();
  config.train.total_iterations = 120;
  config.run.straggler_warning = 0.4;
  config.pipeline.stages = 2;
  Run run(config);
  Warned warned;
  run.log = warned.log;
  run.gather();
  run.send(kNode0, wire::Peers{0, {"10.0.0.1:7"}});
  run.send(kNode1, wire::Peers{0, {"10.0.0.2:7"}});
  train_unequally(run, 0, 30);
  CHECK(status_of(run).stragglers.empty());
  CHECK(warned.lines.empty());
  train_unequally(run, 30, 50, 9s);  // 13 such of a window of 16 are slow enough
  REQUIRE(warned.lines.size() == 1);
  CHECK_THAT(warned.lines[0],
             Contains("1.00 of the fastest worker's speed of its stage, 0.38 of its own best"));
}

TEST_CASE("equal workers have no straggler, and without a limit nobody is warned of") {
  for (const auto slow : {1s, 3s}) {
    RunConfig config = small_run();
    config.train.total_iterations = 80;
    Run run(config);
    Warned warned;
    run.log = warned.log;
    run.gather();
    train_unequally(run, 0, 30, slow);
    CHECK(warned.lines.empty());
    CHECK(status_of(run).stragglers.size() == (slow > 1s ? 1 : 0));
    run.authority->fail(aborted("enough"), run.now);
    CHECK(run.over());
    CHECK(run.summary().stragglers.size() == (slow > 1s ? 1 : 0));
  }
}

TEST_CASE("where all have become slower those are stragglers that are slower than others") {
  for (const auto slow : {9s, 30s}) {
    RunConfig config = small_run();
    config.train.total_iterations = 120;
    TrainingRun run(config);
    train_unequally(run, 0, 20, 1s);
    for (std::int64_t clock = 20; clock < 50; ++clock) {
      run.pass(slow);
      run.iterate(0, clock, 0, 9s);
      run.iterate(1, clock, 0, slow);
    }
    const RunStatus s = status_of(run);
    for (const auto& worker : s.workers) CHECK(worker.score->individual < 0.2);
    CHECK(s.stragglers == (slow > 9s ? std::vector<WorkerId>{WorkerId(1, 0)} : std::vector<WorkerId>{}));
    // So it is of those that are left.
    run.authority->lost(kNode1, "silent", run.now);
    CHECK(status_of(run).stragglers.empty());
  }
}

TEST_CASE("who has become slow is a straggler while another that is here is not measured yet") {
  WorkerSpeeds speeds(small_run());
  wire::StepReport report;
  report.worker = WorkerId(0, 0);
  report.metric = {1.0, 5, 10};
  const Ticks now{1};
  for (const auto compute : {1s, 4s}) {
    report.compute = compute;
    for (std::size_t i = 0; i < StragglerScores::kWindow; ++i) {
      speeds.granted(report.worker, now);
      speeds.took(report, now, now);
    }
  }
  CHECK(speeds.stragglers().empty());  // it is alone, as where the others are lost
  speeds.granted(WorkerId(1, 0), now);
  CHECK(speeds.stragglers().size() == 1);
  speeds.forget(NodeId(1));
  CHECK(speeds.stragglers().empty());
}

TEST_CASE("what a worker waits for, and a pause of the server, is not its slowness") {
  RunConfig config = small_run();
  config.train.total_iterations = 80;
  config.run.straggler_warning = 0.4;
  Run run(config);
  Warned warned;
  run.log = warned.log;
  run.gather();
  train_unequally(run, 0, 20, 1s);
  run.pass(101s);
  run.iterate(0, 20);
  run.iterate(1, 20);
  CHECK(status_of(run).workers[1].score->individual == Approx(1.0));
  CHECK(warned.lines.empty());
}

TEST_CASE("how a run went by time is noted: bytes, and how far each worker was ahead") {
  TrainingRun run;
  run.authority->note_progress({10, 20, 0}, run.now);  // too soon after the beginning
  run.train(0, 1);
  run.iterate(0, 1);
  run.pass(150ms);
  run.authority->note_progress({100, 200, 5}, run.now);
  run.authority->note_progress({101, 201, 6}, run.now);
  run.authority->fail(aborted("enough"), run.now);
  REQUIRE(run.over());
  const auto rows = read_progress(run.config.run.out);
  REQUIRE(rows.is_ok());
  REQUIRE(rows->size() == 2);
  CHECK((rows->front().seconds == 0.0 && rows->front().moved == Traffic{}));
  CHECK((rows->back().seconds == Approx(0.15) && rows->back().moved == Traffic{100, 200, 5}));
  CHECK((rows->back().gaps == std::vector<std::optional<std::int64_t>>{1, 0}));
}

TEST_CASE("a lost node's workers are lost, and no measure for the others") {
  RunConfig config = small_run();
  config.train.total_iterations = 80;
  TrainingRun run(config);
  train_unequally(run, 0, 20);
  run.authority->lost(kNode0, "silent", run.now);
  const RunStatus s = status_of(run);
  CHECK((s.workers[0].state == "lost" && !s.workers[0].score && s.nodes_lost == 1));
  CHECK((s.stragglers.empty() && s.workers[1].score->relative == 1.0));
}

}  // namespace
}  // namespace paceline::server
