// The authority from the first join to the last file, without sockets: what it sends, to whom, and when.
#include "server/authority/authority.h"

#include <catch2/catch.hpp>

#include "common/params/model_file.h"
#include "common/report/curve.h"
#include "common/report/run_summary.h"
#include "tests/unit/outbox_fixture.h"
#include "tests/unit/store_fixture.h"
#include "tests/unit/temp_folder.h"

namespace paceline::server {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;

const Peer kNode0 = Peer::of(NodeId(0));
const Peer kNode1 = Peer::of(NodeId(1));
const Peer kShard0 = Peer::of(ShardId(0));
const Peer kShard1 = Peer::of(ShardId(1));

// Two nodes with one thread each, two shards of four floats, BSP, three versions.
RunConfig small_run() {
  RunConfig config;
  config.cluster.nodes = 2;
  config.cluster.shards = 2;
  config.cluster.endpoints = {"tcp://a:1", "tcp://b:2"};
  config.train.total_iterations = 6;
  config.train.model = "layers";
  return config;
}

struct Run {
  explicit Run(RunConfig c = small_run()) : config(std::move(c)) {
    config.run.out = folder.path();
    auto record = RunRecord::open(config, log);
    REQUIRE(record.is_ok());
    authority.emplace(config, std::move(record).value(), sent, log, now);
  }
  void say(Peer from, wire::Body body, std::vector<float> values = {}) {
    CHECK(authority->handle(from, {std::move(body), payload_of(std::move(values))}, now).is_ok());
  }
  Status refused(Peer from, wire::Body body) { return authority->handle(from, {std::move(body), {}}, now); }
  void pass(std::chrono::nanoseconds time) {
    now = now + time;
    authority->tick(now);
  }
  void gather() {
    const Layout layout = layout_of(8);
    authority->shard_joined(ShardId(1));
    authority->node_joined(NodeId(0), layout, now);
    authority->node_joined(NodeId(1), layout, now);
    for (std::uint32_t k = 0; k < 2; ++k)
      say(Peer::of(ShardId(k)), wire::ShardReady{ShardId(k), layout.hash()});
  }
  void arrive(std::uint32_t node, std::int64_t clock) {
    for (std::uint32_t k = 0; k < 2; ++k) {
      say(Peer::of(ShardId(k)), wire::GradientArrived{ShardId(k), WorkerId(node, 0), Clock(clock), 10, ""});
    }
  }
  void iterate(std::uint32_t node, std::int64_t clock) {
    arrive(node, clock);
    wire::StepReport report;
    report.worker = WorkerId(node, 0);
    report.clock = Clock(clock);
    report.computed_version = Version(clock);
    report.metric = {1.0, 5, 10};
    say(Peer::of(NodeId(node)), report);
  }
  void train(std::int64_t from, std::int64_t to) {
    for (std::int64_t clock = from; clock < to; ++clock) {
      iterate(0, clock);
      iterate(1, clock);
    }
  }
  void answer_model(std::uint32_t shard, float value) {
    const auto pulls = sent.of<wire::Pull>(Peer::of(ShardId(shard)));
    REQUIRE(pulls.size() == 1);
    CHECK(pulls[0].exact);
    const wire::Parameters piece{
        pulls[0].request, ShardId(shard), pulls[0].min_version, Revision(6), 0, true, {}};
    say(Peer::of(ShardId(shard)), piece, std::vector<float>(4, value));
  }
  void node_reports(std::uint32_t node) {
    wire::NodeReport report;
    report.node = NodeId(node);
    report.workers.push_back({WorkerId(node, 0), {}, 3, 0, 0});
    say(Peer::of(NodeId(node)), report);
  }
  void shard_reports(std::uint32_t shard) {
    say(Peer::of(ShardId(shard)), wire::ShardReport{ShardId(shard), 100, 200, 3, 1});
  }
  RunSummary summary() {
    auto read = read_summary(config.run.out);
    REQUIRE(read.is_ok());
    return *read;
  }

  testing::TempFolder folder;
  RunConfig config;
  Log log;
  Sent sent;
  Ticks now{1};
  std::optional<Authority> authority;
};

TEST_CASE("training begins when every node has joined and every shard is ready, and not before") {
  Run run;
  const Layout layout = layout_of(8);
  run.authority->node_joined(NodeId(0), layout, run.now);
  run.say(kShard0, wire::ShardReady{ShardId(0), layout.hash()});
  run.say(kShard1, wire::ShardReady{ShardId(1), layout.hash()});
  CHECK(run.sent.entries.empty());
  run.authority->node_joined(NodeId(1), layout, run.now);
  CHECK(run.sent.of<wire::Grant>(kNode0).size() == 1);
  CHECK(run.sent.of<wire::Grant>(kNode1).size() == 1);
}

TEST_CASE("who is missing is named when the start takes too long") {
  Run run;
  run.authority->node_joined(NodeId(0), layout_of(8), run.now);
  run.pass(59s);
  CHECK_FALSE(run.authority->over());
  run.pass(2s);
  REQUIRE(run.authority->over());
  CHECK(run.authority->result().code() == StatusCode::kDeadlineExceeded);
  CHECK(run.authority->result().message() == "node 1, shard 1 have not joined within 60 s");
  CHECK(run.sent.of<wire::RunOver>(kNode0).size() == 1);
  CHECK(run.summary().status == "failed");
}

TEST_CASE("a clock is decided once for all shards, in one sequence") {
  Run run;
  run.gather();
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
  Run run(config);
  run.gather();
  run.train(0, 2);
  const auto grants = run.sent.of<wire::Grant>(kNode0);
  const auto decisions = run.sent.of<wire::ApplyDecision>(kShard1);
  CHECK(grants[0].learning_rate == Approx(0.3));
  CHECK(grants[1].learning_rate == Approx(0.6));
  CHECK(decisions[1].learning_rate == grants[1].learning_rate);
  CHECK(grants[0].local_scale == 0.5);
}

TEST_CASE("a run to its end: model, evaluation, reports, files, and everybody is told") {
  Run run;
  run.gather();
  run.now = run.now + 2s;
  run.train(0, 3);
  CHECK(run.sent.of<wire::FinishWorker>(kNode1).size() == 1);
  CHECK(run.sent.of<wire::ApplyDecision>(kShard1).back().retain);
  const auto evaluate = run.sent.of<wire::Evaluate>(kNode0);
  REQUIRE(evaluate.size() == 1);
  CHECK((evaluate[0].version == Version(3) && evaluate[0].final_model));

  run.answer_model(0, 1.5F);
  run.answer_model(1, 2.5F);
  run.node_reports(0);
  run.node_reports(1);
  CHECK(run.sent.of<wire::RunOver>(kShard1).empty());
  run.say(kNode0, wire::EvaluationReport{Version(3), {50.0, 75, 100}, ""});
  CHECK(run.sent.of<wire::RunOver>(kShard1).size() == 1);
  CHECK(run.sent.of<wire::RunOver>(kNode1).empty());
  run.shard_reports(0);
  run.shard_reports(1);

  REQUIRE(run.authority->over());
  CHECK(run.authority->result().is_ok());
  CHECK(run.sent.of<wire::RunOver>(kNode1).size() == 1);
  const RunSummary summary = run.summary();
  CHECK(summary.status == "ok");
  CHECK(summary.iterations == 6);
  CHECK(summary.wall_seconds == Approx(2.0));
  CHECK(summary.test_accuracy == 0.75);
  CHECK(summary.test_loss == 0.5);
  CHECK((summary.bytes_pushed == 200 && summary.bytes_pulled == 400 && summary.pulls == 6));
  const auto model = read_model_file(run.folder / "model.bin");
  REQUIRE(model.is_ok());
  CHECK(model->parameters == std::vector<float>{1.5, 1.5, 1.5, 1.5, 2.5, 2.5, 2.5, 2.5});
  CHECK(model->info.version == Version(3));
  CHECK(read_curve(run.config.run.out)->back().test_accuracy == 0.75);
}

TEST_CASE("a lost node is in the report, its shards forget it, and the others go on") {
  Run run;
  run.gather();
  run.arrive(0, 0);  // whole, but not reported: it stays
  run.iterate(1, 0);
  run.authority->lost(kNode0, "silent for 10.2 s", run.now);
  CHECK(run.sent.of<wire::NodeLost>(kShard1).size() == 1);
  REQUIRE(run.sent.of<wire::ApplyDecision>(kShard0).size() == 1);
  CHECK(run.sent.of<wire::ApplyDecision>(kShard0)[0].contributions.size() == 2);
  CHECK(run.sent.of<wire::Grant>(kNode1).size() == 2);

  run.iterate(1, 1);
  run.iterate(1, 2);
  CHECK(run.sent.of<wire::Evaluate>(kNode1).size() == 1);  // the lowest that is still there
  run.say(kNode1, wire::EvaluationReport{Version(3), {1.0, 1, 10}, ""});
  run.answer_model(0, 0);
  run.answer_model(1, 0);
  run.node_reports(1);
  run.shard_reports(0);
  run.shard_reports(1);
  CHECK(run.authority->result().is_ok());
  CHECK(run.summary().lost == std::vector<std::string>{"node 0: silent for 10.2 s"});
}

TEST_CASE("what a lost worker had pushed in part is discarded on every shard") {
  Run run;
  run.gather();
  run.say(kShard0, wire::GradientArrived{ShardId(0), WorkerId(0, 0), Clock(0), 10, ""});
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
    run.say(kNode1, wire::Leave{"data/test_batch.bin: no such file"});
    CHECK_THAT(run.authority->result().message(), Contains("node 1") && Contains("test_batch.bin"));
  }
  CHECK(run.authority->over());
  CHECK(run.summary().status == "failed");
}

TEST_CASE("with every node lost the run has failed, and what was learned is kept") {
  Run run;
  run.gather();
  run.train(0, 1);
  run.authority->lost(kNode0, "a", run.now);
  run.authority->lost(kNode1, "b", run.now);
  run.answer_model(0, 1);
  run.answer_model(1, 1);
  run.shard_reports(0);
  run.shard_reports(1);
  REQUIRE(run.authority->over());
  CHECK(run.authority->result().code() == StatusCode::kUnavailable);
  CHECK(read_model_file(run.folder / "model.bin")->info.version == Version(1));
}

TEST_CASE("an evaluation's row says when its version was reached, not when it was reported") {
  RunConfig config = small_run();
  config.train.eval_every_clocks = 1;
  Run run(config);
  run.gather();
  run.now = run.now + 2s;
  run.train(0, 1);
  run.now = run.now + 5s;
  run.say(kNode0, wire::EvaluationReport{Version(1), {1.0, 5, 10}, ""});
  const auto curve = read_curve(run.config.run.out);
  REQUIRE(curve.is_ok());
  REQUIRE_FALSE(curve->empty());
  CHECK(curve->back().version == Version(1));
  CHECK(curve->back().seconds == Approx(2.0));
  CHECK(curve->back().test_accuracy == 0.5);
}

TEST_CASE("evaluations that nobody is left to do make room for the final model") {
  RunConfig config = small_run();
  config.train.eval_every_clocks = 1;
  Run run(config);
  run.gather();
  run.train(0, 2);  // version 1 is being evaluated, 2 waits
  std::size_t retained = 0;
  run.authority->lost(kNode0, "a", run.now);
  run.authority->lost(kNode1, "b", run.now);
  for (const Sent::Entry& entry : run.sent.entries) {
    if (entry.to != kShard1) continue;
    const auto* decision = std::get_if<wire::ApplyDecision>(&entry.message.body);
    if (decision != nullptr && decision->retain) ++retained;
    if (std::holds_alternative<wire::Release>(entry.message.body)) --retained;
    CHECK(retained <= kRetainedMax);
  }
  CHECK(retained == 1);  // the final model
  CHECK(run.sent.of<wire::Release>(kShard1).size() == 2);
  run.answer_model(0, 1);
  run.answer_model(1, 1);
  run.shard_reports(0);
  run.shard_reports(1);
  REQUIRE(run.authority->over());
  CHECK(read_model_file(run.folder / "model.bin")->info.version == Version(2));
}

TEST_CASE("a NaN names worker, clock and tensor, and ends the run when it is to stop") {
  Run run;
  run.gather();
  run.say(kShard0, wire::GradientArrived{ShardId(0), WorkerId(1, 0), Clock(0), 10, "conv1.weight"});
  CHECK(run.sent.of<wire::Evaluate>(kNode0).empty());
  run.iterate(0, 0);
  run.say(kShard1, wire::GradientArrived{ShardId(1), WorkerId(1, 0), Clock(0), 10, ""});
  wire::StepReport report;
  report.worker = WorkerId(1, 0);
  report.metric = {1.0, 0, 10};
  run.say(kNode1, report);
  run.answer_model(0, 1);
  run.answer_model(1, 1);
  run.node_reports(0);
  run.node_reports(1);
  run.shard_reports(0);
  run.shard_reports(1);
  REQUIRE(run.authority->over());
  CHECK_THAT(run.authority->result().message(),
             Contains("1.0") && Contains("clock 0") && Contains("conv1.weight"));
  CHECK(run.summary().status == "failed");
  CHECK_FALSE(run.summary().test_accuracy.has_value());
}

TEST_CASE("max_seconds and target_accuracy end a run well; a signal ends it as stopped") {
  RunConfig config = small_run();
  config.run.max_seconds = 30s;
  config.run.target_accuracy = 0.5;
  config.train.eval_every_clocks = 1;
  Run run(config);
  run.gather();
  run.iterate(0, 0);
  std::string status = "ok";
  SECTION("max_seconds") {
    run.pass(31s);
    run.iterate(1, 0);
    run.say(kNode0, wire::EvaluationReport{Version(1), {1.0, 1, 10}, ""});
  }
  SECTION("target accuracy") {
    run.iterate(1, 0);
    run.say(kNode0, wire::EvaluationReport{Version(1), {1.0, 6, 10}, ""});
    run.iterate(0, 1);
    run.iterate(1, 1);
    run.say(kNode0, wire::EvaluationReport{Version(2), {1.0, 6, 10}, ""});
  }
  SECTION("signal") {
    status = "stopped";
    run.authority->stop("stopped by a signal", run.now);
    run.iterate(1, 0);
    run.say(kNode0, wire::EvaluationReport{Version(1), {1.0, 1, 10}, ""});
  }
  CHECK(run.sent.of<wire::FinishWorker>(kNode0).size() == 1);
  CHECK(run.sent.of<wire::FinishWorker>(kNode1).size() == 1);
  run.answer_model(0, 1);
  run.answer_model(1, 1);
  run.node_reports(0);
  run.node_reports(1);
  run.shard_reports(0);
  run.shard_reports(1);
  REQUIRE(run.authority->over());
  CHECK(run.authority->result().is_ok() == (status == "ok"));
  CHECK(run.summary().status == status);
  CHECK(run.summary().test_accuracy.has_value());
}

TEST_CASE("a node that lives but never reports does not hold the end of the run open") {
  Run run;
  run.gather();
  run.train(0, 3);
  run.say(kNode0, wire::EvaluationReport{Version(3), {1.0, 5, 10}, ""});
  run.answer_model(0, 1);
  run.answer_model(1, 1);
  run.node_reports(0);
  run.pass(Authority::kReportLeases * run.config.cluster.lease);
  CHECK(run.sent.of<wire::RunOver>(kShard0).empty());
  run.pass(1ms);
  CHECK(run.sent.of<wire::RunOver>(kShard0).size() == 1);
  run.shard_reports(0);
  run.shard_reports(1);
  REQUIRE(run.authority->over());
  CHECK(run.authority->result().is_ok());
  REQUIRE(run.summary().lost.size() == 1);
  CHECK(run.summary().lost[0] == "node 1: no report within 100 s of the end of training");
}

TEST_CASE("an evaluation that is never answered is given up, and the run ends without it") {
  Run run;
  run.gather();
  run.train(0, 3);
  run.answer_model(0, 1);
  run.answer_model(1, 1);
  run.node_reports(0);
  run.node_reports(1);
  run.pass(Authority::kEvaluationLeases * run.config.cluster.lease);
  CHECK(run.sent.of<wire::Release>(kShard0).empty());
  run.pass(1ms);
  CHECK(run.sent.of<wire::Release>(kShard0).size() == 1);
  run.shard_reports(0);
  run.shard_reports(1);
  REQUIRE(run.authority->over());
  CHECK(run.authority->result().is_ok());
  CHECK_FALSE(run.summary().test_accuracy.has_value());
  CHECK(run.refused(kNode0, wire::EvaluationReport{Version(3), {1.0, 5, 10}, ""})
            .is_ok());  // too late: ignored
}

TEST_CASE("what a peer may not say is refused, and the run goes on") {
  Run run;
  run.gather();
  wire::StepReport report;
  report.worker = WorkerId(0, 0);
  report.metric = {1.0, 0, 10};
  CHECK(run.refused(kNode1, report).code() == StatusCode::kInvalidArgument);  // in another's name
  report.clock = Clock(5);
  CHECK(run.refused(kNode0, report).code() == StatusCode::kFailedPrecondition);  // not granted
  CHECK(run.refused(kNode0, wire::EvaluationReport{Version(1), {1.0, 1, 10}, ""}).code() ==
        StatusCode::kOutOfOrder);
  CHECK(run.refused(kNode0, wire::NodeReport{NodeId(1), {}, 0, 0, 0}).code() == StatusCode::kInvalidArgument);
  CHECK(run.refused(kNode0, wire::Grant{}).code() == StatusCode::kInvalidArgument);
  CHECK_FALSE(run.authority->over());
}

TEST_CASE("an arrival that can never be decided is the end of its node, not of the run") {
  Run run;
  run.gather();
  std::string why;
  SECTION("nobody granted it") {
    run.say(kShard1, wire::GradientArrived{ShardId(1), WorkerId(1, 0), Clock(9), 10, ""});
    why = "not granted";
  }
  SECTION("it was granted, but too early: the worker is held") {
    run.iterate(1, 0);
    run.say(kShard1, wire::GradientArrived{ShardId(1), WorkerId(1, 0), Clock(1), 10, ""});
    why = "not granted";
  }
  SECTION("the shards were told another number of samples") {
    run.say(kShard0, wire::GradientArrived{ShardId(0), WorkerId(1, 0), Clock(0), 10, ""});
    run.say(kShard1, wire::GradientArrived{ShardId(1), WorkerId(1, 0), Clock(0), 11, ""});
    why = "expected 10";
  }
  SECTION("its report said another number of samples") {
    wire::StepReport report;
    report.worker = WorkerId(1, 0);
    report.metric = {1.0, 5, 9};
    run.say(kNode1, report);
    run.say(kShard1, wire::GradientArrived{ShardId(1), WorkerId(1, 0), Clock(0), 10, ""});
    why = "expected 9";
  }
  CHECK_FALSE(run.sent.of<wire::DiscardGradient>(kShard1).empty());
  const auto errors = run.sent.of<wire::Error>(kNode1);
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].fatal);
  CHECK_THAT(errors[0].message, Contains(why));
  CHECK(run.sent.of<wire::NodeLost>(kShard0).size() == 1);
  CHECK_FALSE(run.authority->over());
  run.iterate(0, 0);
  CHECK(run.sent.of<wire::Grant>(kNode0).size() == 2);  // the other one goes on
}

TEST_CASE("emulated steps that did not fit make the run invalid") {
  Run run;
  run.gather();
  run.train(0, 3);
  run.say(kNode0, wire::EvaluationReport{Version(3), {1.0, 1, 10}, ""});
  run.answer_model(0, 1);
  run.answer_model(1, 1);
  run.node_reports(0);
  wire::NodeReport report;
  report.node = NodeId(1);
  report.workers.push_back({WorkerId(1, 0), {}, 3, 0, 2});
  run.say(kNode1, report);
  run.shard_reports(0);
  run.shard_reports(1);
  CHECK(run.authority->result().code() == StatusCode::kFailedPrecondition);
  CHECK(run.summary().status == "invalid");
  CHECK_THAT(run.summary().reason, Contains("2 of 6"));
}

TEST_CASE("a final model that could not be evaluated fails the run; one during training does not") {
  RunConfig config = small_run();
  config.train.eval_every_clocks = 1;
  Run run(config);
  run.gather();
  run.train(0, 2);
  run.say(kNode0, wire::EvaluationReport{Version(1), {}, "no memory"});
  const bool finally = GENERATE(false, true);
  run.say(kNode0, wire::EvaluationReport{Version(2), {1.0, 1, 10}, ""});
  run.train(2, 3);
  run.say(kNode0, wire::EvaluationReport{Version(3), {}, "test_batch.bin: cannot read it"});
  const auto again = run.sent.of<wire::Evaluate>(kNode0).back();  // once more: the final model is worth it
  REQUIRE((again.version == Version(3) && again.final_model));
  const std::string fault = finally ? "test_batch.bin: cannot read it" : "";
  run.say(kNode0, wire::EvaluationReport{Version(3), {1.0, 1, 10}, fault});
  run.answer_model(0, 1);
  run.answer_model(1, 1);
  run.node_reports(0);
  run.node_reports(1);
  run.shard_reports(0);
  run.shard_reports(1);
  REQUIRE(run.authority->over());
  CHECK(run.authority->result().is_ok() != finally);
  CHECK(run.summary().status == (finally ? "failed" : "ok"));
  if (finally) CHECK_THAT(run.summary().reason, Contains("final model") && Contains("cannot read it"));
}

TEST_CASE("a held grant is announced to its node") {
  Run run;
  run.gather();
  run.iterate(0, 0);
  run.pass(100ms);
  CHECK(run.sent.of<wire::Held>(kNode0).empty());
  run.pass(150ms);
  const auto held = run.sent.of<wire::Held>(kNode0);
  REQUIRE(held.size() == 1);
  CHECK(held[0].waits_for == WorkerId(1, 0));
}

TEST_CASE("evaluations: one at a time, one waiting, the rest skipped; another node takes over") {
  EvaluationSchedule schedule(10);
  CHECK_FALSE(schedule.reached(Version(9)));
  CHECK(schedule.reached(Version(10)));
  CHECK(schedule.ask(NodeId(0))->version == Version(10));
  CHECK_FALSE(schedule.ask(NodeId(0)).has_value());
  CHECK(schedule.reached(Version(20)));
  CHECK_FALSE(schedule.reached(Version(30)));
  CHECK(schedule.skipped() == 1);

  schedule.gone(NodeId(0));
  CHECK_FALSE(schedule.ask(std::nullopt).has_value());
  CHECK(schedule.ask(NodeId(1))->version == Version(10));
  CHECK_FALSE(schedule.reported(NodeId(0), Version(10)));
  CHECK(schedule.reported(NodeId(1), Version(10)));
  CHECK(schedule.ask(NodeId(1))->version == Version(20));
  CHECK(schedule.reported(NodeId(1), Version(20)));
  CHECK(schedule.idle());
  schedule.reached_final(Version(25));
  CHECK(schedule.ask(NodeId(1))->final_model);
}

}  // namespace
}  // namespace paceline::server
