// What is recorded of a run while it goes, and how much of it is kept.
#include <algorithm>
#include <catch2/catch.hpp>

#include "common/timing/recorder.h"
#include "common/trace/bound.h"
#include "common/trace/decision_log.h"

namespace paceline::trace {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

const WorkerId kQuick(0, 0), kLate(1, 0);

TEST_CASE("the_newest_are_kept_in_order_and_the_others_counted") {
  Newest<int> kept(3);
  for (int i = 0; i < 3; ++i) kept.add(i);
  CHECK(kept.in_order() == std::vector{0, 1, 2});
  CHECK(kept.left_out() == 0);
  for (int i = 3; i < 8; ++i) kept.add(i);
  CHECK(kept.in_order() == std::vector{5, 6, 7});
  CHECK(kept.left_out() == 5);
}

TEST_CASE("all_recorders_of_a_run_keep_no_more_than_it_may") {
  for (const std::int64_t most : {1000, 500'000}) {
    for (const std::uint32_t workers : {1U, 16U, 333U}) {
      const std::size_t kept =
          worker_events(most, workers) * workers + decision_events(most) + 64 * shard_events(most, 64);
      CHECK(kept <= static_cast<std::size_t>(most) + workers + 64);
    }
  }
}

// --- the recorder

TEST_CASE("an_exchange_is_recorded_part_behind_part_with_the_iterations_that_they_are_for") {
  Ticks now{1000};
  PhaseSpans spans(10);
  PhaseRecorder recorder([&] { return now; }, &spans);
  recorder.at(Clock(4));
  recorder.begin(Phase::kTCacheParam);
  now = Ticks(1010);
  recorder.enter(Phase::kComputeGrads);
  now = Ticks(1050);
  recorder.enter(Phase::kPsApplyGrads);
  now = Ticks(1150);
  recorder.at(Clock(5));
  recorder.end_exchange({60ns, 25ns, 1ns}, Phase::kTCacheParam);
  recorder.enter(Phase::kBatch);  // at once: nothing to be seen of the thread cache

  const std::vector<PhaseSpan> got = spans.in_order();
  REQUIRE(got.size() == 6);
  const auto is = [](const PhaseSpan& s, Phase phase, std::int64_t begin, nanoseconds length,
                     std::int64_t clock) {
    return s.phase == phase && s.begin == Ticks(begin) && s.length == length && s.clock == Clock(clock);
  };
  CHECK(is(got[0], Phase::kTCacheParam, 1000, 10ns, 4));
  CHECK(is(got[1], Phase::kComputeGrads, 1010, 40ns, 4));
  CHECK(is(got[2], Phase::kStep, 1050, 1ns, 4));
  CHECK(is(got[3], Phase::kPsApplyGrads, 1051, 14ns, 4));
  CHECK(is(got[4], Phase::kBarrier, 1065, 60ns, 5));
  CHECK(is(got[5], Phase::kPsParam, 1125, 25ns, 5));
}

// --- the authority's decisions

// The core of two nodes of one worker under SSP, and the log that looks on.
class Decided {
 public:
  explicit Decided(std::int64_t threshold, std::size_t most = 1000) : engine_(config(threshold)), log_(most) {
    for (const WorkerId worker : {kQuick, kLate}) record(sync::Joined{worker});
  }
  void record(const sync::Event& event) {
    now_ = now_ + 1ms;
    actions_.clear();
    engine_.step(event, now_, actions_);
    log_.stepped(event, actions_, engine_, now_);
  }
  void iterate(WorkerId worker, std::int64_t clock) {
    record(sync::GradientArrived{ShardId(0), worker, Clock(clock), 10, ""});
    record(sync::StepReported{worker, Clock(clock), {1.0, 5, 10}, Version(0), Revision(0), false, "", 0});
  }
  std::vector<Decision> of(DecisionKind kind) const {
    Trace trace;
    log_.add_to(trace);
    std::erase_if(trace.decisions, [kind](const Decision& d) { return d.kind != kind; });
    return trace.decisions;
  }

 private:
  static sync::EngineConfig config(std::int64_t threshold) {
    sync::EngineConfig config;
    config.cluster = {2, 1};
    config.policy.kind = PolicyKind::kSsp;
    config.policy.threshold = threshold;
    config.total_iterations = 100;
    return config;
  }
  sync::Engine engine_;
  DecisionLog log_;
  Ticks now_{0};
  std::vector<sync::Action> actions_;
};

TEST_CASE("a_hold_names_the_slowest_and_its_grant_who_let_it_go") {
  Decided run(1);
  run.iterate(kQuick, 0);  // granted: one ahead
  run.iterate(kQuick, 1);  // held: two ahead
  const auto holds = run.of(DecisionKind::kHeld);
  REQUIRE(holds.size() == 1);
  CHECK(holds[0].worker == kQuick);
  CHECK(holds[0].clock == Clock(2));
  CHECK(holds[0].min_clock == Clock(0));
  CHECK(holds[0].by == kLate);
  CHECK(holds[0].threshold == Threshold(1));

  run.iterate(kLate, 0);
  const auto grants = run.of(DecisionKind::kGranted);
  const auto found = std::find_if(grants.begin(), grants.end(), [](const Decision& d) {
    return d.worker == kQuick && d.clock == Clock(2);
  });
  REQUIRE(found != grants.end());
  CHECK(found->release == Release::kWorker);
  CHECK(found->by == kLate);
  CHECK(found->held > nanoseconds(0));
  for (const Decision& grant : grants) {
    if (&grant != &*found) CHECK_FALSE(grant.release.has_value());
  }
}

TEST_CASE("who_waits_for_a_node_that_is_lost_is_let_go_by_its_loss") {
  Decided run(0);
  run.iterate(kQuick, 0);
  run.record(sync::Lost{kLate.node});
  const Decision last = run.of(DecisionKind::kGranted).back();
  CHECK(last.worker == kQuick);
  CHECK(last.release == Release::kLoss);
  CHECK(run.of(DecisionKind::kLost).size() == 1);
}

TEST_CASE("what_is_rare_outlives_the_iterations_around_it") {
  Decided run(1000, 20);
  run.record(sync::Lost{kLate.node});
  for (std::int64_t clock = 0; clock < 40; ++clock) run.iterate(kQuick, clock);
  CHECK(run.of(DecisionKind::kLost).size() == 1);
  CHECK(run.of(DecisionKind::kReported).size() <= 18);
  CHECK(run.of(DecisionKind::kReported).back().clock == Clock(39));
}

TEST_CASE("what_the_core_refuses_is_no_decision") {
  Decided run(0);
  const auto before = run.of(DecisionKind::kReported).size();
  run.record(sync::StepReported{kQuick, Clock(7), {1.0, 5, 10}, Version(0), Revision(0), false, "", 0});
  CHECK(run.of(DecisionKind::kReported).size() == before);
}

}  // namespace
}  // namespace paceline::trace
