// Evaluations: which are asked of whom, and what becomes of those that never come, the final one above all.
#include "tests/unit/authority_fixture.h"

namespace paceline::server {
namespace {

TEST_CASE("a final evaluation that is never answered is given up, and fails the run") {
  TrainingRun run;
  run.train(0, 3);
  run.answer_model();
  run.nodes_report();
  run.pass(Evaluations::kLeases * run.config.cluster.lease);
  CHECK(run.sent.of<wire::Release>(kShard0).empty());
  run.pass(1ms);
  CHECK(run.sent.of<wire::Release>(kShard0).size() == 1);
  run.ends();
  CHECK(run.summary().status == "failed");
  CHECK(run.summary().reason ==
        "the final model, version 3 was not evaluated: node 0 has not answered within 600 s");
  CHECK_FALSE(run.summary().test_accuracy.has_value());
  CHECK(run.refused(kNode0, wire::EvaluationReport{Version(3), {1.0, 5, 10}, ""})
            .is_ok());  // too late: ignored
}

TEST_CASE("an evaluation that takes too long is given up, and its node is asked for the next") {
  RunConfig config = small_run();
  config.train.eval_every_clocks = 1;
  TrainingRun run(config);
  run.train(0, 2);
  run.pass(Evaluations::kLeases * run.config.cluster.lease + 1ms);
  REQUIRE(run.sent.of<wire::Release>(kShard0).size() == 1);
  REQUIRE(run.sent.of<wire::Evaluate>(kNode0).size() == 2);
  run.send(kNode0, wire::EvaluationReport{Version(1), {1.0, 9, 10}, ""});  // too late: ignored
  const wire::EvaluationReport again{Version(1), {}, "version 1 is not retained"};
  CHECK(run.refused(kNode0, again).code() == StatusCode::kOutOfOrder);
  CHECK(run.sent.of<wire::Release>(kShard0).size() == 1);
  CHECK(run.refused(kNode1, wire::EvaluationReport{Version(1), {1.0, 9, 10}, ""}).code() ==
        StatusCode::kOutOfOrder);
  run.send(kNode0, wire::EvaluationReport{Version(2), {1.0, 5, 10}, ""});
  const auto curve = read_curve(run.config.run.out);
  REQUIRE(curve->size() == 1);
  CHECK((curve->back().version == Version(2) && curve->back().test_accuracy == 0.5));
}

TEST_CASE("a final model that nobody is left to evaluate is said to be so, and is no success") {
  TrainingRun run;
  const bool stopped = GENERATE(false, true);
  if (stopped) run.authority->stop("stopped by a signal", run.now);
  run.train(0, stopped ? 1 : 3);
  run.answer_model();
  run.nodes_report();
  run.authority->lost(kNode0, "its connection broke", run.now);
  run.authority->lost(kNode1, "its connection broke", run.now);
  run.ends();
  CHECK_FALSE(run.summary().test_accuracy.has_value());
  CHECK(run.summary().status == (stopped ? "stopped" : "failed"));
  CHECK(run.summary().reason ==
        (stopped ? "stopped by a signal; the final model, version 1 " : "the final model, version 3 ") +
            std::string("was not evaluated: no node is left to do it"));
}

TEST_CASE("a final model that could not be evaluated fails the run; one during training does not") {
  RunConfig config = small_run();
  config.train.eval_every_clocks = 1;
  TrainingRun run(config);
  run.train(0, 2);
  run.send(kNode0, wire::EvaluationReport{Version(1), {}, "no memory"});
  const bool finally = GENERATE(false, true);
  run.send(kNode0, wire::EvaluationReport{Version(2), {1.0, 1, 10}, ""});
  run.train(2, 3);
  run.send(kNode0, wire::EvaluationReport{Version(3), {}, "test_batch.bin: cannot read it"});
  const auto again = run.sent.of<wire::Evaluate>(kNode0).back();  // once more: the final model is worth it
  REQUIRE((again.version == Version(3) && again.final_model));
  const std::string fault = finally ? "test_batch.bin: cannot read it" : "";
  run.send(kNode0, wire::EvaluationReport{Version(3), {1.0, 1, 10}, fault});
  run.answer_model();
  run.nodes_report();
  run.ends();
  CHECK(run.authority->result().is_ok() != finally);
  CHECK(run.summary().status == (finally ? "failed" : "ok"));
  if (finally) CHECK_THAT(run.summary().reason, Contains("final model") && Contains("cannot read it"));
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
