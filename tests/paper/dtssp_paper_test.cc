// One case per claim of the DTSSP paper (dynamic threshold stale synchronous parallel), as docs/SYNC.md
// renders it, which also says what was chosen where the paper is ambiguous.
#include <catch2/catch.hpp>
#include <map>

#include "common/cache/freshness.h"
#include "common/cache/own_updates.h"
#include "common/sync/dtssp.h"
#include "common/sync/engine.h"

namespace paceline {
namespace {

using namespace sync;

// A run of two workers, 0.0 the fast and 0.1 the slow, whose steps can be taken one by one.
class Two {
 public:
  explicit Two(PolicyConfig policy, std::int64_t window_clocks = 1000)
      : engine_(config_of(policy, window_clocks)) {
    for (std::uint32_t t : {0u, 1u}) take(Joined{WorkerId(0, t)});
  }
  // One iteration of thread `t`, `correct` of 1000 samples right.
  void step(std::uint32_t t, std::int64_t correct = 500) {
    const WorkerId w(0, t);
    const Grant grant = grants_.at(w);
    take(GradientArrived{ShardId(0), w, grant.clock, 1000, ""});
    StepReported report;
    report.worker = w;
    report.clock = grant.clock;
    report.metric = {1000.0, correct, 1000};
    report.computed_version = grant.version;
    take(report);
  }
  // Both complete one clock with this accuracy (in thousandths).
  void clock_with(std::int64_t correct) {
    step(1, correct);
    step(0, correct);
  }
  bool waits(std::uint32_t t) const { return engine_.is_held(WorkerId(0, t)); }
  std::int64_t clock(std::uint32_t t) const { return engine_.clock_of(WorkerId(0, t)).value; }
  std::int64_t threshold() const { return engine_.threshold().value(); }
  const Engine& engine() const { return engine_; }

 private:
  static EngineConfig config_of(PolicyConfig policy, std::int64_t window_clocks) {
    EngineConfig config;
    config.cluster = {1, 2};
    config.policy = policy;
    config.window_clocks = window_clocks;
    config.total_iterations = 10'000;
    return config;
  }
  void take(const Event& event) {
    std::vector<Action> actions;
    engine_.step(event, Ticks(0), actions);
    for (const Action& action : actions) {
      if (const auto* grant = std::get_if<Grant>(&action)) grants_[grant->worker] = *grant;
      if (const auto* reject = std::get_if<Reject>(&action)) FAIL(reject->status.message());
    }
  }
  Engine engine_;
  std::map<WorkerId, Grant> grants_;
};

PolicyConfig ssp(std::int64_t s) {
  PolicyConfig policy;
  policy.kind = PolicyKind::kSsp;
  policy.threshold = s;
  return policy;
}

PolicyConfig dtssp() {  // the values of the paper's experiment are the defaults
  PolicyConfig policy;
  policy.kind = PolicyKind::kDtssp;
  return policy;
}

TEST_CASE("fig_6_to_8: under_threshold_3_a_worker_at_7_waits_for_one_at_3") {
  Two run(ssp(3));
  for (int i = 0; i < 3; ++i) run.step(1);
  for (int i = 0; i < 7; ++i) run.step(0);
  CHECK(run.clock(0) == 7);
  CHECK(run.clock(1) == 3);
  CHECK(run.waits(0));
  run.step(1);  // 7 - 4 = 3: it goes on
  CHECK_FALSE(run.waits(0));
}

TEST_CASE("fig_6_to_8: once_the_threshold_is_4_the_worker_at_7_goes_on") {
  Two run(ssp(4));
  for (int i = 0; i < 3; ++i) run.step(1);
  for (int i = 0; i < 7; ++i) run.step(0);
  CHECK_FALSE(run.waits(0));
}

TEST_CASE("fig_6_to_8: a_rising_threshold_releases_the_one_that_waits") {
  Two run(dtssp(), 1);
  // The slow one completes clocks 0..2 and the fast one leads by four: 7 against 3, held under 3.
  for (int i = 0; i < 3; ++i) run.step(1, 500);
  for (int i = 0; i < 7; ++i) run.step(0, i < 3 ? 500 : 600);
  REQUIRE(run.threshold() == 3);
  REQUIRE(run.waits(0));
  // Clock 3 closes with 600 after 500: +20 %, the threshold becomes 4.
  run.step(1, 600);
  CHECK(run.threshold() == 4);
  CHECK_FALSE(run.waits(0));
}

TEST_CASE("section_3: a_fast_worker_waits_for_the_slowest_not_for_the_average") {
  EngineConfig config;
  config.cluster = {1, 3};
  config.policy = ssp(1);
  config.total_iterations = 300;
  Engine engine(config);
  std::vector<Action> actions;
  const auto step = [&](std::uint32_t t) {
    const WorkerId w(0, t);
    StepReported report;
    report.worker = w;
    report.clock = engine.clock_of(w);
    report.metric.samples = 1;
    report.computed_version = engine.version();
    engine.step(report, Ticks(0), actions);
    engine.step(GradientArrived{ShardId(0), w, report.clock, 1, ""}, Ticks(0), actions);
  };
  for (std::uint32_t t = 0; t < 3; ++t) engine.step(Joined{WorkerId(0, t)}, Ticks(0), actions);
  step(1);
  step(0);
  step(0);  // 2, 1, 0: the average is 1, the slowest 0
  CHECK(engine.is_held(WorkerId(0, 0)));
}

TEST_CASE("section_3_3: the_threshold_starts_at_3_and_stays_within_3_and_10") {
  Two run(dtssp(), 1);
  CHECK(run.threshold() == 3);
  std::int64_t correct = 10;
  for (int i = 0; i < 12; ++i) run.clock_with(correct += correct / 3);
  CHECK(run.threshold() == 10);
  for (int i = 0; i < 12; ++i) run.clock_with(correct -= correct / 4);
  CHECK(run.threshold() == 3);
}

TEST_CASE("section_3_3: above_5_per_cent_the_threshold_rises_below_minus_5_it_falls_between_it_stays") {
  Dtssp policy(dtssp());
  const auto window = [&policy](double lpr) {
    WindowResult result;
    result.lpr = lpr;
    policy.on_window(result);
    return policy.threshold().value();
  };
  CHECK(window(5.0) == 3);  // not above
  CHECK(window(5.01) == 4);
  CHECK(window(20.0) == 5);  // by one, however much
  CHECK(window(0.0) == 5);
  CHECK(window(-5.0) == 5);  // not below
  CHECK(window(-5.01) == 4);
}

TEST_CASE(
    "section_3_3: the_threshold_rises_when_learning_goes_well_as_the_text_says_not_as_the_formula_prints") {
  Two run(dtssp(), 1);
  run.clock_with(400);
  run.clock_with(440);  // the printed formula would give -10 %
  CHECK(run.threshold() == 4);
}

TEST_CASE("section_3_3: the_first_window_changes_nothing") {
  Two run(dtssp(), 2);
  run.clock_with(999);
  run.clock_with(999);
  CHECK(run.engine().version() == Version(2));
  CHECK(run.threshold() == 3);
}

TEST_CASE("section_2: bsp_is_threshold_0_and_asp_is_threshold_infinity") {
  PolicyConfig policy;
  policy.kind = PolicyKind::kBsp;
  CHECK(make_policy(policy)->threshold() == Threshold(0));
  policy.kind = PolicyKind::kAsp;
  CHECK(make_policy(policy)->threshold() == Threshold::infinite());
}

TEST_CASE("section_2: a_dtssp_whose_range_is_one_value_is_ssp") {
  PolicyConfig fixed = dtssp();
  fixed.threshold_min = fixed.threshold_max = 3;
  Two dynamic(fixed, 1), constant(ssp(3), 1);
  for (Two* run : {&dynamic, &constant}) {
    for (int i = 0; i < 3; ++i) run->step(0, 300 + 200 * i);
    for (int i = 0; i < 3; ++i) run->step(1, 300 + 200 * i);
    run->step(0);
  }
  CHECK(dynamic.threshold() == constant.threshold());
  CHECK(dynamic.clock(0) == constant.clock(0));
  CHECK(dynamic.waits(0) == constant.waits(0));
}

TEST_CASE("section_3_2: the_caches_are_read_thread_first_then_process_then_server_and_only_when_required") {
  using namespace cache;
  const FreshnessRules rules{ApplyMode::kVersioned, std::nullopt};  // refresh_clocks: null
  const ReadRequest request{Clock(9), Version(6), Version(8), Revision(80)};
  CHECK(
      decide_read(rules, request, {Version(6), Revision(60), Clock(3)}, {Version(8), Revision(80)}).source ==
      ReadSource::kThreadCache);
  CHECK(
      decide_read(rules, request, {Version(5), Revision(50), Clock(8)}, {Version(6), Revision(60)}).source ==
      ReadSource::kProcessCache);
  CHECK(
      decide_read(rules, request, {Version(5), Revision(50), Clock(8)}, {Version(5), Revision(50)}).source ==
      ReadSource::kServer);
}

TEST_CASE("section_3_2: a_worker_sees_its_own_updates_before_the_server_has_applied_them") {
  using namespace cache;
  SnapshotStamp snapshot(1);
  REQUIRE(snapshot.install(ShardId(0), {Version(3), Revision(6), {Clock(3)}}));
  OwnUpdates own;
  for (int stamp = 2; stamp < 5; ++stamp) own.remember(Clock(stamp));
  own.drop_contained(snapshot, 0);
  CHECK(own.stamps() == std::deque<Clock>{Clock(3), Clock(4)});
  CHECK(own.to_reapply(snapshot, ShardId(0), 0).size() == 2);
}

}  // namespace
}  // namespace paceline
