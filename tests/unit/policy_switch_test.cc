// One policy after another: when each takes over, and that it begins as it would begin a run.
#include "common/sync/policy_switch.h"

#include <catch2/catch.hpp>

#include "common/sync/engine_config.h"

namespace paceline::sync {
namespace {

PolicyStage stage_of(PolicyKind kind, std::int64_t threshold, StageUntil until = {}) {
  PolicyStage stage;
  stage.policy = kind;
  stage.threshold = threshold;
  stage.threshold_min = 1;
  stage.threshold_max = 9;
  stage.until = until;
  return stage;
}

PolicyConfig switching(std::vector<PolicyStage> stages) {
  PolicyConfig config;
  config.kind = PolicyKind::kSwitch;
  config.stages = std::move(stages);
  return config;
}

WindowResult measured(double accuracy, double loss, std::optional<double> lpr = std::nullopt) {
  WindowResult window;
  window.accuracy = accuracy;
  window.loss_mean = loss;
  window.samples = 1;
  window.lpr = lpr;
  return window;
}

// Two workers in lockstep: each clock is a version, and a window of its own unless told otherwise.
class Lockstep {
 public:
  explicit Lockstep(const PolicyConfig& config) : policy_(config) {
    for (int i = 0; i < 2; ++i) table_.add(Clock(0));
    for (const Rank worker : {Rank(0), Rank(1)}) policy_.on_clock(worker, Clock(0), Ticks(0), table_);
  }
  // One clock of both; the window, if any, ends there.
  void clock(std::optional<WindowResult> window = std::nullopt, std::int64_t clocks_of_window = 1) {
    for (const Rank worker : {Rank(0), Rank(1)}) {
      table_.advance(clock_);
      now_ = now_ + std::chrono::seconds(1);
      policy_.on_clock(worker, clock_.next(), now_, table_);
    }
    clock_ = clock_.next();
    if (window) {
      window->begins_at = Version(clock_.value - clocks_of_window);
      policy_.on_window(*window);
    }
    policy_.on_version(Version(clock_.value), now_, table_);
  }
  const PolicySwitch& policy() const { return policy_; }

 private:
  PolicySwitch policy_;
  ClockTable table_;
  Clock clock_;
  Ticks now_;
};

TEST_CASE("a_policy_takes_over_at_a_version") {
  Lockstep run(
      switching({stage_of(PolicyKind::kBsp, 0, {StageEnd::kVersion, 2}), stage_of(PolicyKind::kSsp, 4)}));
  CHECK(run.policy().threshold() == Threshold(0));
  run.clock();
  CHECK(run.policy().threshold() == Threshold(0));
  run.clock();
  CHECK(run.policy().threshold() == Threshold(4));
  CHECK(run.policy().threshold_for(Rank(1), Clock(2)) == Threshold(4));
  CHECK(run.policy().stage() == 1);
}

TEST_CASE("a_policy_takes_over_when_so_many_iterations_are_completed") {
  // Two a clock: three are there at version 2.
  Lockstep run(
      switching({stage_of(PolicyKind::kSsp, 3, {StageEnd::kIterations, 3}), stage_of(PolicyKind::kAsp, 0)}));
  run.clock();
  CHECK(run.policy().stage() == 0);
  run.clock();
  CHECK(run.policy().threshold().is_infinite());
}

TEST_CASE("a_policy_takes_over_when_a_window_is_good_enough") {
  Lockstep run(
      switching({stage_of(PolicyKind::kBsp, 0, {StageEnd::kTrainAccuracy, 0.6}),
                 stage_of(PolicyKind::kSsp, 2, {StageEnd::kTrainLoss, 0.5}), stage_of(PolicyKind::kSsp, 5)}));
  run.clock(measured(0.5, 0.1));
  CHECK(run.policy().stage() == 0);
  // The second stage looks at windows of its own: the loss of this one is not one of them.
  run.clock(measured(0.6, 0.4));
  CHECK(run.policy().stage() == 1);
  run.clock();
  CHECK(run.policy().stage() == 1);
  run.clock(measured(0.6, 0.5));
  CHECK(run.policy().stage() == 2);
}

TEST_CASE("stages_that_are_over_are_passed_by_at_once") {
  Lockstep run(
      switching({stage_of(PolicyKind::kBsp, 0, {StageEnd::kIterations, 4}),
                 stage_of(PolicyKind::kSsp, 2, {StageEnd::kVersion, 2}), stage_of(PolicyKind::kSsp, 5)}));
  run.clock();
  run.clock();
  CHECK(run.policy().stage() == 2);
}

TEST_CASE("a_policy_begins_as_it_would_begin_a_run") {
  Lockstep run(
      switching({stage_of(PolicyKind::kBsp, 0, {StageEnd::kVersion, 2}), stage_of(PolicyKind::kDtssp, 3)}));
  run.clock(measured(0.1, 1, 100.0));
  run.clock(measured(0.2, 1, 100.0));  // closed under BSP: DTSSP starts from its own threshold
  CHECK(run.policy().threshold() == Threshold(3));
  run.clock(measured(0.4, 1, 100.0));  // its first: better than one of BSP's, which it has not seen
  CHECK(run.policy().threshold() == Threshold(3));
  run.clock(measured(0.8, 1, 100.0));
  CHECK(run.policy().threshold() == Threshold(4));
}

TEST_CASE("a_window_that_began_in_the_stage_before_counts_for_neither") {
  Lockstep run(switching({stage_of(PolicyKind::kBsp, 0, {StageEnd::kVersion, 3}),
                          stage_of(PolicyKind::kDtssp, 3, {StageEnd::kTrainAccuracy, 0.6}),
                          stage_of(PolicyKind::kSsp, 7)}));
  run.clock();
  run.clock(measured(0.1, 1), 2);
  run.clock();
  REQUIRE(run.policy().stage() == 1);
  run.clock(measured(0.9, 1, 100.0), 2);  // clock 2 of it is BSP's
  CHECK(run.policy().stage() == 1);
  CHECK(run.policy().threshold() == Threshold(3));
  run.clock();
  run.clock(measured(0.5, 1, 100.0), 2);  // its first
  CHECK(run.policy().threshold() == Threshold(3));
  run.clock();
  run.clock(measured(0.55, 1, 10.0), 2);
  CHECK(run.policy().threshold() == Threshold(4));
  run.clock();
  run.clock(measured(0.6, 1, 10.0), 2);
  CHECK(run.policy().stage() == 2);
}

TEST_CASE("an_iteration_that_goes_on_over_a_switch_is_as_long_as_it_was") {
  PolicySwitch policy(
      switching({stage_of(PolicyKind::kSsp, 9, {StageEnd::kVersion, 1}), stage_of(PolicyKind::kDssp, 0)}));
  ClockTable table;
  Clock clocks[3];
  for (int i = 0; i < 3; ++i) table.add(Clock(0));
  const auto at = [](int seconds) { return Ticks(std::int64_t{seconds} * 1'000'000'000); };
  const auto completes = [&](Rank worker, int seconds) {
    Clock& clock = clocks[worker.value];
    table.advance(clock);
    clock = clock.next();
    policy.on_clock(worker, clock, at(seconds), table);
  };
  const Rank fast(0), slow(1), third(2);
  for (const Rank worker : {fast, slow, third}) policy.on_clock(worker, Clock(0), at(0), table);
  completes(slow, 1);
  for (int seconds = 2; seconds <= 8; seconds += 2) completes(fast, seconds);
  completes(third, 10);
  policy.on_version(Version(1), at(10), table);
  REQUIRE(policy.stage() == 1);
  policy.on_departure(third);
  table.remove(clocks[2]);
  completes(slow, 11);  // 10 s after its last, one after the switch: next at 21
  completes(fast, 12);  // 4 s after its last: next at 16 and 20, so two extra, the second with lead 4
  CHECK(policy.threshold_for(fast, clocks[0]) == Threshold(4));
}

TEST_CASE("the_largest_threshold_is_that_of_any_stage") {
  CHECK(largest_threshold(switching({stage_of(PolicyKind::kBsp, 0), stage_of(PolicyKind::kSsp, 4)})) ==
        Threshold(4));
  CHECK(largest_threshold(switching({stage_of(PolicyKind::kDssp, 0), stage_of(PolicyKind::kSsp, 4)})) ==
        Threshold(9));
  CHECK(largest_threshold(switching({stage_of(PolicyKind::kAsp, 0), stage_of(PolicyKind::kSsp, 4)}))
            .is_infinite());
}

TEST_CASE("impossible_stages_are_refused") {
  const auto refused = [](std::vector<PolicyStage> stages, ApplyMode apply = ApplyMode::kVersioned) {
    EngineConfig config;
    config.policy = switching(std::move(stages));
    config.apply = apply;
    config.combine = CombineMode::kEach;
    const Status status = validate(config);
    return status.is_ok() ? std::string() : status.message();
  };
  const StageUntil two{StageEnd::kVersion, 2};
  const PolicyStage bsp = stage_of(PolicyKind::kBsp, 0, two), ssp = stage_of(PolicyKind::kSsp, 3);
  CHECK(refused({bsp, ssp}).empty());
  CHECK_FALSE(refused({}).empty());
  CHECK_FALSE(refused({ssp}).empty());
  CHECK_FALSE(refused({ssp, ssp}).empty());  // the first never ends
  CHECK_FALSE(refused({bsp, bsp}).empty());  // the last does
  CHECK_FALSE(refused({bsp, ssp}, ApplyMode::kEager).empty());
  const PolicyStage asp = stage_of(PolicyKind::kAsp, 0);
  CHECK(refused({bsp, asp}).empty());  // turns eager
  PolicyStage first_asp = asp, waiting_asp = asp, versioned_ssp = ssp, eager_ssp = ssp;
  first_asp.until = two;
  waiting_asp.apply = versioned_ssp.apply = ApplyMode::kVersioned;
  eager_ssp.apply = ApplyMode::kEager;
  CHECK(refused({bsp, eager_ssp}).empty());
  CHECK_FALSE(refused({bsp, waiting_asp}).empty());
  CHECK_FALSE(refused({first_asp, ssp}).empty());  // not eager from the beginning
  CHECK(refused({first_asp, ssp}, ApplyMode::kEager).empty());
  CHECK_FALSE(refused({first_asp, versioned_ssp}, ApplyMode::kEager).empty());  // would go back
  CHECK_FALSE(refused({first_asp, stage_of(PolicyKind::kBsp, 0)}, ApplyMode::kEager).empty());
  CHECK_FALSE(refused({stage_of(PolicyKind::kSwitch, 0, two), ssp}).empty());
  CHECK_FALSE(refused({stage_of(PolicyKind::kDtssp, 0, two), ssp}).empty());  // below its least
  CHECK_FALSE(refused({stage_of(PolicyKind::kBsp, 0, {StageEnd::kProgress, 0.5}), ssp}).empty());
  EngineConfig config;
  config.policy.stages = {bsp, ssp};
  CHECK_FALSE(validate(config).is_ok());  // bsp has none
}

}  // namespace
}  // namespace paceline::sync
