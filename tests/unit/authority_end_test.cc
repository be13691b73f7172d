// The authority at the end of a run: the final model, reports, and what each way of ending comes to. Evaluations:
// authority_evaluations_test.cc.
#include "tests/unit/authority_fixture.h"

namespace paceline::server {
namespace {

TEST_CASE("a run to its end: model, evaluation, reports, files, and everybody is told") {
  TrainingRun run;
  run.now = run.now + 2s;
  run.train(0, 3);
  CHECK(run.sent.of<wire::FinishWorker>(kNode1).size() == 1);
  CHECK(run.sent.of<wire::ApplyDecision>(kShard1).back().retain);
  const auto evaluate = run.sent.of<wire::Evaluate>(kNode0);
  REQUIRE(evaluate.size() == 1);
  CHECK((evaluate[0].version == Version(3) && evaluate[0].final_model));

  run.answer_model(0, 1.5F);
  run.answer_model(1, 2.5F);
  run.nodes_report();
  CHECK(run.sent.of<wire::RunOver>(kShard1).empty());
  run.send(kNode0, wire::EvaluationReport{Version(3), {50.0, 75, 100}, ""});
  CHECK(run.sent.of<wire::RunOver>(kShard1).size() == 1);
  CHECK(run.sent.of<wire::RunOver>(kNode1).empty());
  run.ends();
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
  const CurveRow last = read_curve(run.config.run.out)->back();
  CHECK((last.test_accuracy == 0.75 && last.test_loss == 0.5 && last.iterations == 6));
}

TEST_CASE("a run that switches names each policy from the first on, and its curve the threshold in force") {
  RunConfig config = small_run();
  config.sync.policy = PolicyKind::kSwitch;
  config.sync.stages.resize(2);
  config.sync.stages[0].until = {StageEnd::kVersion, 2};
  config.sync.stages[1].policy = PolicyKind::kSsp;
  config.sync.stages[0].lr_scale = 4.0;
  config.train.optimizer.schedule.warmup_versions = 2;
  config.sync.lpr.window_clocks = 1;
  TrainingRun run(config);
  run.now = run.now + 2s;
  run.train(0, 3);
  run.answer_model();
  run.send(kNode0, wire::EvaluationReport{Version(3), {50.0, 75, 100}, ""});
  run.nodes_report();
  run.ends();
  const auto switches = run.summary().switches;
  REQUIRE(switches.size() == 2);
  CHECK((switches[0].policy == "bsp" && switches[0].version == Version(0)));
  CHECK((switches[0].seconds == 0.0 && switches[0].threshold == Threshold(0)));
  CHECK((switches[1].policy == "ssp" && switches[1].version == Version(2)));
  CHECK((switches[1].seconds == Approx(2.0) && switches[1].threshold == Threshold(3)));
  const auto curve = read_curve(run.config.run.out).value();
  REQUIRE(curve.size() >= 2);
  CHECK(curve[0].threshold == Threshold(0));
  CHECK(curve[1].threshold == Threshold(3));  // the window that ends where the policy takes over
  const double rate = config.train.optimizer.lr;
  CHECK(curve[0].version == Version(1));
  CHECK(*curve[0].learning_rate == Approx(4 * rate / 2));  // of the step that led there, a warm-up's first
  CHECK(*curve[1].learning_rate == Approx(4 * rate));
  CHECK(curve.back().version == Version(3));
  CHECK(*curve.back().learning_rate == Approx(rate));
}

TEST_CASE(
    "a run that goes by accuracies which nobody counts is warned once of each, and has them where they are") {
  RunConfig config = small_run();
  config.sync.policy = PolicyKind::kSwitch;
  config.sync.stages.resize(2);
  config.sync.stages[0].until = {StageEnd::kTrainAccuracy, 0.9};
  config.sync.lpr.window_clocks = 1;
  config.run.target_accuracy = 0.9;
  config.train.eval_every_clocks = 1;
  Run run(config);
  std::vector<std::string> warnings;
  run.keep(LogLevel::kWarn, warnings);
  run.gather();
  for (std::int64_t clock = 0; clock < 3; ++clock) {
    run.correct = clock < 2 ? Metric::kNotCounted : 5;
    run.train(clock, clock + 1);
    run.send(kNode0, wire::EvaluationReport{Version(clock + 1), {50.0, Metric::kNotCounted, 100}, ""});
  }
  REQUIRE(warnings.size() == 2);
  CHECK_THAT(warnings[0], Contains("window 0 has no accuracy") && Contains("expected a train_loss"));
  CHECK_THAT(warnings[1], Contains("version 1 has no accuracy") && Contains("run.target_accuracy"));
  std::vector<std::optional<double>> accuracies;
  const std::vector<CurveRow> rows = read_curve(run.config.run.out).value();
  for (const CurveRow& row : rows) {
    if (row.test_loss) accuracies.push_back(row.train_accuracy);
  }
  CHECK(accuracies == std::vector<std::optional<double>>{std::nullopt, std::nullopt, 0.5});
}

TEST_CASE("while a slow disk takes the final model the authority goes on, and the end waits for the file") {
  Run run;
  run.slow_disk = true;
  run.gather();
  run.train(0, 3);
  run.answer_model(0, 1.5F);
  run.answer_model(1, 2.5F);
  CHECK(run.errands.waiting() == 1);
  run.send(kNode0, wire::EvaluationReport{Version(3), {50.0, 75, 100}, ""});
  run.nodes_report();
  run.authority->stop("stopped by a signal", run.now);
  run.pass(Evaluations::kLeases * run.config.cluster.lease);
  CHECK(run.errands.waiting() == 1);
  CHECK(run.sent.of<wire::RunOver>(kShard1).empty());
  const bool full = GENERATE(false, true);
  if (full) std::filesystem::create_directories(run.folder / "model.bin/in the way");
  run.errands.do_all(run.now);
  CHECK(run.sent.of<wire::RunOver>(kShard1).size() == 1);
  if (!full) {
    CHECK(run.sent.of<wire::RunOver>(kNode1).empty());
    run.shards_report();
    CHECK(run.errands.waiting() == 1);  // the summary
    CHECK_FALSE(run.authority->over());
  }
  REQUIRE(run.over());
  CHECK(run.sent.of<wire::RunOver>(kNode1).size() == 1);
  CHECK(run.summary().status == (full ? "failed" : "ok"));
  CHECK_THAT(run.summary().reason, Contains(full ? "cannot write" : ""));
  for (const auto& file : std::filesystem::directory_iterator(run.folder.path()))
    CHECK_FALSE(file.path().extension() == ".tmp");
}

TEST_CASE("a run that fails tells shards and nodes together, however long its files take") {
  Run run;
  run.slow_disk = true;
  run.gather();
  const bool writing = GENERATE(false, true);
  if (writing) {  // the model, when the failure comes
    run.train(0, 3);
    run.answer_model();
  }
  run.authority->lost(kShard1, "silent for 10 s", run.now);
  CHECK(run.errands.waiting() == (writing ? 2 : 1));
  for (const Peer peer : {kShard0, kNode0, kNode1}) {
    const auto received = run.sent.of<wire::RunOver>(peer);
    REQUIRE(received.size() == 1);
    CHECK_THAT(received[0].message, Contains("silent for 10 s"));
  }
  CHECK_FALSE(run.authority->over());
  REQUIRE(run.over());
  CHECK(run.sent.of<wire::RunOver>(kNode0).size() == 1);
  CHECK(run.summary().status == "failed");
}

TEST_CASE("whatever of its results cannot be written, a run leaves its summary") {
  Run run;
  const std::string in_the_way = GENERATE("phases.csv", "staleness.csv");
  std::filesystem::create_directory(run.folder / in_the_way);
  run.gather();
  run.train(0, 3);
  run.answer_model();
  run.nodes_report();
  run.send(kNode0, wire::EvaluationReport{Version(3), {50.0, 75, 100}, ""});
  run.ends();
  CHECK(run.summary().status == "ok");
  CHECK_THAT(run.authority->result().message(), Contains(in_the_way));
}

TEST_CASE("with every node at its own end the run ends well, unless the last is lost") {
  TrainingRun run;
  run.train(0, 1);
  const bool is_lost = GENERATE(false, true);
  const wire::Leave at_its_end{"its training loop has ended", std::nullopt, true};
  run.send(kNode0, at_its_end);
  if (is_lost) {
    run.authority->lost(kNode1, "b", run.now);
  } else {
    run.send(kNode1, at_its_end);
  }
  run.answer_model();
  run.ends();
  CHECK(
      (run.summary().status == (is_lost ? "failed" : "ok") && run.summary().lost_nodes == (is_lost ? 1 : 0)));
  CHECK(read_model_file(run.folder / "model.bin")->info.version == Version(1));
}

TEST_CASE("with every node lost the run has failed, and what was learned is kept") {
  TrainingRun run;
  run.train(0, 1);
  run.authority->lost(kNode0, "a", run.now);
  run.authority->lost(kNode1, "b", run.now);
  run.answer_model();
  run.ends();
  CHECK(run.authority->result().code() == StatusCode::kUnavailable);
  CHECK(read_model_file(run.folder / "model.bin")->info.version == Version(1));
}

TEST_CASE("an evaluation's row says when its version was reached, not when it was reported") {
  RunConfig config = small_run();
  config.train.eval_every_clocks = 1;
  TrainingRun run(config);
  run.now = run.now + 2s;
  run.train(0, 1);
  run.now = run.now + 5s;
  run.send(kNode0, wire::EvaluationReport{Version(1), {1.0, 5, 10}, ""});
  const auto curve = read_curve(run.config.run.out);
  REQUIRE(curve.is_ok());
  REQUIRE_FALSE(curve->empty());
  CHECK(curve->back().version == Version(1));
  CHECK(curve->back().seconds == Approx(2.0));
  CHECK(curve->back().iterations == 2);  // one of each worker
  CHECK((curve->back().train_loss == 0.1 && curve->back().train_accuracy == 0.5));
  CHECK(curve->back().test_accuracy == 0.5);
  CHECK(curve->back().test_loss == 0.1);
}

// A round of ten is an iteration to the core.
TEST_CASE("the iterations of the curve are mini-batches in every row, with local steps too") {
  RunConfig config = small_run();
  config.train.local_steps = 10;
  config.train.total_iterations = 60;
  config.train.eval_every_clocks = 1;
  config.sync.lpr.window_clocks = 2;
  TrainingRun run(config);
  for (std::int64_t clock = 0; clock < 3; ++clock) {
    run.train(clock, clock + 1);
    run.send(kNode0, wire::EvaluationReport{Version(clock + 1), {1.0, 5, 10}, ""});
  }
  run.answer_model();
  run.nodes_report();
  run.ends();
  const auto curve = read_curve(run.config.run.out).value();
  CHECK(curve.size() >= 4);  // three evaluations and a window
  for (const CurveRow& row : curve) CHECK(row.iterations == 20 * row.version.value);
  CHECK((run.summary().iterations == 60 && run.summary().rounds == 6));
}

TEST_CASE("a run that is killed leaves how it went and how old its parameters were") {
  TrainingRun run;
  run.train(0, 2);
  PhaseTimes times;
  times[Phase::kComputeGrads] = 700'000'000;
  times.wall = 900'000'000;
  REQUIRE(run.authority->on_heartbeat(NodeId(1), wire::Heartbeat{{times}}));
  for (int i = 0; i < 12; ++i) {
    run.now = run.now + 100ms;
    run.authority->note_progress({100 * i, 200 * i, 0}, run.now);
  }
  run.errands.do_all(run.now);
  const auto progress = read_progress(run.config.run.out);
  REQUIRE(progress.is_ok());
  CHECK(progress->size() >= 10);
  CHECK(progress->back().moved.pushed >= 900);
  const auto staleness = read_staleness(run.config.run.out);
  REQUIRE(staleness.is_ok());
  CHECK(staleness->size() == 2);
  const auto phases = read_phases_there(run.config.run.out);
  REQUIRE((phases.is_ok() && phases->workers.size() == 1));  // node 0 has not said where its time went
  CHECK((phases->workers[0].worker == WorkerId(1, 0) && times_of(phases->workers[0].totals) == times));
  CHECK_FALSE(std::filesystem::exists(run.folder / "summary.json"));
}

TEST_CASE("evaluations that nobody is left to do make room for the final model") {
  RunConfig config = small_run();
  config.train.eval_every_clocks = 1;
  TrainingRun run(config);
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
  run.answer_model();
  run.ends();
  CHECK(read_model_file(run.folder / "model.bin")->info.version == Version(2));
}

TEST_CASE("max_seconds and target_accuracy end a run well; a signal ends it as stopped") {
  RunConfig config = small_run();
  config.run.max_seconds = 30s;
  config.run.target_accuracy = 0.5;
  config.train.eval_every_clocks = 1;
  TrainingRun run(config);
  run.iterate(0, 0);
  std::string status = "ok";
  SECTION("max_seconds") {
    run.pass(31s);
    run.iterate(1, 0);
    run.send(kNode0, wire::EvaluationReport{Version(1), {1.0, 1, 10}, ""});
  }
  SECTION("target accuracy") {
    run.iterate(1, 0);
    run.send(kNode0, wire::EvaluationReport{Version(1), {1.0, 6, 10}, ""});
    run.iterate(0, 1);
    run.iterate(1, 1);
    run.send(kNode0, wire::EvaluationReport{Version(2), {1.0, 6, 10}, ""});
  }
  SECTION("signal") {
    status = "stopped";
    run.authority->stop("stopped by a signal", run.now);
    run.iterate(1, 0);
    run.send(kNode0, wire::EvaluationReport{Version(1), {1.0, 1, 10}, ""});
  }
  CHECK(run.sent.of<wire::FinishWorker>(kNode0).size() == 1);
  CHECK(run.sent.of<wire::FinishWorker>(kNode1).size() == 1);
  run.answer_model();
  run.nodes_report();
  run.disk_is_full();
  run.ends();
  CHECK(run.authority->result().is_ok() == (status == "ok"));
  CHECK(run.summary().status == status);
  CHECK(run.summary().test_accuracy.has_value());
}

TEST_CASE("a node that lives but never reports does not hold the end of the run open") {
  TrainingRun run;
  run.train(0, 3);
  run.send(kNode0, wire::EvaluationReport{Version(3), {1.0, 5, 10}, ""});
  run.answer_model();
  run.node_reports(0);
  run.pass(RunEnd::kReportLeases * run.config.cluster.lease);
  CHECK(run.sent.of<wire::RunOver>(kShard0).empty());
  run.pass(1ms);
  CHECK(run.sent.of<wire::RunOver>(kShard0).size() == 1);
  run.ends();
  CHECK(run.authority->result().is_ok());
  REQUIRE(run.summary().lost.size() == 1);
  CHECK(run.summary().lost[0] == "node 1: no report within 100 s of the end of training");
}

// Five iterations of two nodes: node 1 is done before node 0's last.
TEST_CASE(
    "who is done is not lost for its connection, but for parameters that it asks for and does not take") {
  RunConfig config = small_run();
  config.train.total_iterations = 5;
  TrainingRun run(config);
  run.train(0, 2);
  REQUIRE(run.sent.of<wire::FinishWorker>(kNode1).size() == 1);
  const wire::NodeLost cut_off{NodeId(1), "its connection broke", 0, /*out_of_reach=*/true};
  const auto received = [&] { return run.sent.of<wire::NodeLost>(kShard0).size(); };
  SECTION("its report is in") {
    run.node_reports(1);
    run.send(kShard1, cut_off);
    CHECK(received() == 0);
    CHECK(run.sent.of<wire::Error>(kNode1).empty());
    run.send(kShard1, wire::NodeLost{NodeId(1), "it has taken none of the parameters"});
    REQUIRE(run.sent.of<wire::Error>(kNode1).size() == 1);
    CHECK(run.sent.of<wire::Error>(kNode1)[0].fatal);
  }
  SECTION("it owes its report") { run.send(kShard1, cut_off); }
  CHECK(received() == 1);
  CHECK(run.authority->training());
}

TEST_CASE("emulated steps that did not fit make the run invalid") {
  TrainingRun run;
  run.train(0, 3);
  run.send(kNode0, wire::EvaluationReport{Version(3), {1.0, 1, 10}, ""});
  run.answer_model();
  run.node_reports(0);
  wire::NodeReport report;
  report.node = NodeId(1);
  report.workers.push_back({WorkerId(1, 0), {}, 3, 0, 3});
  run.send(kNode1, report);
  run.shards_report();
  CHECK(run.authority->result().code() == StatusCode::kFailedPrecondition);
  CHECK(run.summary().status == "invalid");
  CHECK_THAT(run.summary().reason, Contains("3 of 6"));
}

}  // namespace
}  // namespace paceline::server
