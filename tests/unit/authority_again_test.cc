// What the authority says again to a node whose connection broke, and to one that reports twice.
#include "tests/unit/authority_fixture.h"

namespace paceline::server {
namespace {

wire::StepReport sent_report(std::uint32_t node, std::int64_t clock) {
  wire::StepReport report;
  report.worker = WorkerId(node, 0);
  report.clock = Clock(clock);
  report.computed_version = Version(clock);
  report.metric = {1.0, 5, 10};
  return report;
}

TEST_CASE("a node that goes on over another connection is granted again what it has not reported") {
  TrainingRun run;
  run.train(0, 1);
  run.sent.clear();
  run.authority->node_reconnected(NodeId(0));
  const auto again = run.sent.of<wire::Grant>(kNode0);
  REQUIRE(again.size() == 1);
  CHECK((again[0].clock == Clock(1) && again[0].min_version == Version(1) && again[0].samples > 0));
  CHECK(run.sent.of<wire::Grant>(kNode1).empty());
}

TEST_CASE(
    "what it has reported is granted once all have completed the clock, and once for each time it asks") {
  TrainingRun run;
  run.iterate(0, 0);
  run.sent.clear();
  run.authority->node_reconnected(NodeId(0));
  CHECK(run.sent.of<wire::Grant>(kNode0).empty());
  CHECK(run.refused(kNode0, sent_report(0, 0)).code() == StatusCode::kOutOfOrder);  // no fault of its own
  const auto held = run.sent.of<wire::HeldNotice>(kNode0);
  REQUIRE(held.size() == 1);
  CHECK((held[0].clock == Clock(1) && held[0].waits_for == WorkerId(1, 0) && held[0].lead == Staleness(1)));
  run.iterate(1, 0);
  REQUIRE(run.sent.of<wire::Grant>(kNode0).size() == 1);
  CHECK(run.refused(kNode0, sent_report(0, 0)).code() == StatusCode::kOutOfOrder);
  const auto grants = run.sent.of<wire::Grant>(kNode0);
  REQUIRE(grants.size() == 2);
  CHECK((grants[1].clock == Clock(1) && grants[1].iteration == grants[0].iteration &&
         grants[1].position == grants[0].position));
  const auto decisions = run.sent.of<wire::ApplyDecision>(kShard0);
  REQUIRE(decisions.size() == 1);
  CHECK(decisions[0].contributions.size() == 2);
}

TEST_CASE("a report said again before its gradient is whole changes nothing and is not answered") {
  TrainingRun run;
  run.send(kShard0, wire::GradientArrived{ShardId(0), WorkerId(0, 0), Clock(0), 10, ""});
  run.send(kNode0, sent_report(0, 0));
  run.sent.clear();
  CHECK(run.refused(kNode0, sent_report(0, 0)).code() == StatusCode::kOutOfOrder);
  CHECK(run.sent.entries.empty());
}

TEST_CASE("a grant that is said again names what there is by now, and keeps its own threshold") {
  RunConfig config = small_run();
  config.sync.policy = PolicyKind::kSsp;
  config.sync.threshold = 2;
  TrainingRun run(config);
  run.iterate(0, 0);
  const auto granted = run.sent.of<wire::Grant>(kNode0).back();
  run.iterate(1, 0);
  run.sent.clear();
  run.authority->node_reconnected(NodeId(0));
  const auto again = run.sent.of<wire::Grant>(kNode0);
  REQUIRE(again.size() == 1);
  CHECK((again[0].clock == Clock(1) && again[0].threshold == granted.threshold));
  CHECK((granted.version == Version(0) && again[0].version == Version(1)));
  CHECK((again[0].revision == Revision(2) && again[0].min_version == granted.min_version));
}

TEST_CASE("that a worker is finished, an evaluation and the end of the run are said again") {
  RunConfig config = small_run();
  config.train.eval_every_clocks = 3;
  TrainingRun run(config);
  run.train(0, 3);
  run.sent.clear();
  run.authority->node_reconnected(NodeId(0));
  CHECK(run.sent.of<wire::FinishWorker>(kNode0).size() == 1);
  const auto asked = run.sent.of<wire::Evaluate>(kNode0);
  REQUIRE(asked.size() == 1);
  CHECK(asked[0].version == Version(3));
  run.authority->node_reconnected(NodeId(1));
  CHECK(run.sent.of<wire::Evaluate>(kNode1).empty());
  run.authority->fail(aborted("for a reason"), run.now);
  run.sent.clear();
  run.authority->node_reconnected(NodeId(1));
  const auto over = run.sent.of<wire::RunOver>(kNode1);
  REQUIRE(over.size() == 1);
  CHECK(over[0].message == "for a reason");
}

TEST_CASE("nothing is said again before training begins") {
  Run run;
  run.authority->node_joined(NodeId(0), layout_of(8), run.now);
  run.authority->node_reconnected(NodeId(0));
  CHECK(run.sent.of<wire::Grant>(kNode0).empty());
}

}  // namespace
}  // namespace paceline::server
