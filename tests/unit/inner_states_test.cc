// What is kept of a worker for a resume: its inner optimizer's state, and what its last round adds to the next delta.
#include "worker/train/inner_states.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "common/ticks.h"
#include "tests/unit/temp_folder.h"
#include "tests/unit/training_fixture.h"
#include "worker/train/local_steps.h"

namespace paceline::test {

// A worker whose every gradient is 1, momentum 0.5: its step is 1, 1.5, 1.75 … and so says how many came before.
namespace {

using Former = InnerStates::Former;

struct Stepper {
  Layout layout;
  LocalSteps steps;

  explicit Stepper(const RunConfig& config)
      : layout(one_tensor()), steps(config.train.inner_optimizer, layout) {}
  static Layout one_tensor() {
    Layout layout;
    REQUIRE(layout.add("w", {1}).is_ok());
    return layout;
  }
  float round() {
    const std::vector<float> begin{0.0F};
    steps.begin(begin);
    steps.step(std::vector<float>{1.0F}, 1.0);
    return -steps.parameters()[0];
  }
};

struct SavedStates {
  testing::TempFolder folder;
  RunConfig config = saving(folder.path());
  std::vector<std::string> reported;
  InnerStates states = again();

  static RunConfig saving(const std::filesystem::path& out) {
    RunConfig config = with_local_steps(training_config(1, 2), 2);
    config.run.out = out.string();
    config.checkpoint.every_clocks = 3;
    return config;
  }
  // As of another process.
  InnerStates again() {
    return {config, NodeId(0), Stepper::one_tensor(),
            Log::to([this](LogLevel, const std::string& line) { reported.push_back(line); }), steady_now};
  }
  // Rounds [from, to) of worker 0.1.
  static void train(InnerStates& of_process, Stepper& worker, std::int64_t from, std::int64_t to) {
    for (std::int64_t clock = from; clock < to; ++clock) {
      worker.round();
      of_process.completed(1, Clock(clock), worker.steps);
    }
  }
  // What worker 0.1 does first where it goes on at `clock`.
  float goes_on(InnerStates& of_process, Clock clock, Former former = Former::kCounts) {
    Stepper worker(config);
    of_process.begin(1, clock, former, worker.steps);
    return worker.round();
  }
};

}  // namespace

TEST_CASE("an_inner_optimizer_goes_on_from_the_version_that_a_run_is_resumed_at") {
  SavedStates run;
  Stepper worker(run.config);
  run.states.begin(1, Clock(0), Former::kNone, worker.steps);
  SavedStates::train(run.states, worker, 0, 8);  // files of versions 3 and 6
  InnerStates resumed = run.again();
  const auto [clock, version, expected] = GENERATE(table<std::int64_t, std::int64_t, float>(
      {{3, 3, 1.875F}, {5, 3, 1.875F}, {6, 6, 1.984375F}, {7, 6, 1.984375F}, {2, 0, 1.0F}}));
  CHECK(run.goes_on(resumed, Clock(clock)) == expected);
  CAPTURE(run.reported);
  CHECK((version == 0 ? run.reported.back().ends_with("there is no state of it in " + run.config.run.out +
                                                      "/inner_state")
                      : run.reported.back().ends_with("state of version " + std::to_string(version))));
  // What was newer is gone, and so not taken for that of the rounds that are done again.
  InnerStates third = run.again();
  CHECK(run.goes_on(third, Clock(100)) == expected);
}

TEST_CASE("a_node_that_comes_back_in_a_resumed_run_has_no_state_of_the_rounds_before_it_was_lost") {
  SavedStates run;
  Stepper worker(run.config);
  run.states.begin(1, Clock(0), Former::kNone, worker.steps);
  SavedStates::train(run.states, worker, 0, 4);
  InnerStates resumed = run.again();
  CHECK(run.goes_on(resumed, Clock(3)) == 1.875F);
  InnerStates back = run.again();
  CHECK(run.goes_on(back, Clock(50), Former::kNone) == 1.0F);
  CHECK_THAT(run.reported.back(), Catch::Contains("begins anew: it was lost or comes late"));
  // Of the next resume it is one of those who were there.
  Stepper later(run.config);
  InnerStates of_third = run.again();
  of_third.begin(1, Clock(50), Former::kCounts, later.steps);
  SavedStates::train(of_third, later, 50, 55);
  InnerStates fourth = run.again();
  CHECK(run.goes_on(fourth, Clock(54)) == 1.9375F);
}

TEST_CASE(
    "a_worker_that_outlives_its_servers_or_ends_in_order_has_the_last_two_states_of_its_inner_optimizer") {
  SavedStates run;
  Stepper worker(run.config);
  run.states.begin(1, Clock(0), Former::kNone, worker.steps);
  SavedStates::train(run.states, worker, 0, 5);
  const std::int64_t clock = GENERATE(4, 5);
  const float expected = clock == 4 ? 1.9375F : 1.96875F;
  SECTION("in memory") { CHECK(run.goes_on(run.states, Clock(clock)) == expected); }
  SECTION("in files") {
    run.states.end(1, true);
    InnerStates resumed = run.again();
    CHECK(run.goes_on(resumed, Clock(clock)) == expected);
  }
}

// A stopped run's version is then that of the slowest.
TEST_CASE("eager_a_worker_that_ended_in_order_ahead_of_the_version_has_its_last_state") {
  SavedStates run;
  run.config.sync.apply = GENERATE(ApplyMode::kEager, ApplyMode::kVersioned);
  const bool eager = run.config.sync.apply == ApplyMode::kEager;
  InnerStates states = run.again();
  Stepper worker(run.config);
  states.begin(1, Clock(0), Former::kNone, worker.steps);
  SavedStates::train(states, worker, 0, 5);
  const bool in_order = GENERATE(true, false);
  states.end(1, in_order);
  const float expected = eager && in_order ? 1.96875F : 1.875F;  // of version 5, or 3
  InnerStates resumed = run.again();
  InnerStates& of_process = GENERATE(true, false) ? resumed : states;
  CHECK(run.goes_on(of_process, Clock(3)) == expected);
  // The process is killed, and that state is of rounds that are done again.
  InnerStates third = run.again();
  CHECK(run.goes_on(third, Clock(5)) == expected);
}

TEST_CASE("an_inner_state_that_is_damaged_or_of_another_run_is_passed_over") {
  SavedStates run;
  Stepper worker(run.config);
  run.states.begin(1, Clock(0), Former::kNone, worker.steps);
  SavedStates::train(run.states, worker, 0, 6);
  SECTION("damaged") {
    const auto file = run.folder / "inner_state/0.1-v000000000006";
    REQUIRE(std::filesystem::exists(file));
    std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
    InnerStates resumed = run.again();
    CHECK(run.goes_on(resumed, Clock(6)) == 1.875F);  // version 3's
  }
  SECTION("another run's") {
    run.config.run.seed += 1;
    InnerStates other = run.again();
    CHECK(run.goes_on(other, Clock(6)) == 1.0F);
  }
  SECTION("a run that begins anew") {
    InnerStates anew = run.again();
    Stepper first(run.config);
    anew.begin(1, Clock(0), Former::kNone, first.steps);
    CHECK(std::filesystem::is_empty(run.folder / "inner_state"));
    CHECK(first.round() == 1.0F);
  }
}

namespace {

RunConfig in_fragments(RunConfig config, OptimizerKind inner, ApplyMode apply = ApplyMode::kVersioned) {
  config.sync.policy = PolicyKind::kSsp;
  config.sync.threshold = 1;
  config.sync.apply = apply;
  config.exchange.hidden = true;
  config.exchange.fragments = 2;
  config.train.inner_optimizer.kind = inner;
  return config;
}

// A round of two steps, cut after the first: its delta, and where the worker has got to.
std::pair<float, float> cut_round(LocalSteps& steps, std::int64_t clock) {
  const std::vector<float> begin{1.0F / static_cast<float>(clock + 3)};
  std::vector<float> delta(1);
  steps.begin(begin);
  steps.step(std::vector<float>{static_cast<float>(clock + 1)}, 0.5);
  steps.cut({0, 1}, begin, delta);
  steps.step(std::vector<float>{0.3F}, 0.5);
  steps.delta(begin, delta);
  return {delta[0], steps.parameters()[0]};
}

void cut_rounds(InnerStates& states, LocalSteps& steps, std::int64_t rounds) {
  states.begin(1, Clock(0), Former::kNone, steps);
  for (std::int64_t clock = 0; clock < rounds; ++clock) {
    cut_round(steps, clock);
    states.completed(1, Clock(clock), steps);
  }
}

}  // namespace

// Threshold 1: servers that stop at version 3 may have a worker that has completed the rounds 3 and 4, too.
TEST_CASE("a_worker_that_goes_on_has_what_its_last_round_had_not_sent_in_its_next_delta_to_the_bit") {
  SavedStates run;
  run.config = in_fragments(run.config, GENERATE(OptimizerKind::kSgd, OptimizerKind::kAdam));
  InnerStates states = run.again();
  LocalSteps steps(run.config.train.inner_optimizer, Stepper::one_tensor());
  cut_rounds(states, steps, 5);
  const std::int64_t version = GENERATE(3, 4, 5);
  CAPTURE(version);
  LocalSteps uninterrupted(run.config.train.inner_optimizer, Stepper::one_tensor());
  for (std::int64_t clock = 0; clock < version; ++clock) cut_round(uninterrupted, clock);
  LocalSteps resumed(run.config.train.inner_optimizer, Stepper::one_tensor());
  SECTION("in memory") { states.begin(1, Clock(version), Former::kCounts, resumed); }
  SECTION("in files") {
    states.end(1, true);
    InnerStates again = run.again();
    again.begin(1, Clock(version), Former::kCounts, resumed);
  }
  CHECK(cut_round(resumed, version) == cut_round(uninterrupted, version));
}

// Threshold 2: A has done rounds to 3, and others to 4; so the saved version is 5, and A's next round that.
TEST_CASE("a_worker_that_ended_in_order_behind_others_has_what_it_had_not_sent_in_its_next_delta_once") {
  SavedStates run;
  run.config = in_fragments(run.config, OptimizerKind::kSgd);
  run.config.sync.threshold = 2;
  run.config.checkpoint.every_clocks = 100;
  InnerStates states = run.again();
  LocalSteps steps(run.config.train.inner_optimizer, Stepper::one_tensor());
  cut_rounds(states, steps, 4);
  states.end(1, true);
  LocalSteps resumed(run.config.train.inner_optimizer, Stepper::one_tensor());
  InnerStates again = run.again();
  InnerStates& of_process = GENERATE(true, false) ? again : states;
  of_process.begin(1, Clock(5), Former::kCounts, resumed);
  const auto sent = cut_round(steps, 5);
  CHECK(cut_round(resumed, 5) == sent);
  // The process is killed after that round, and the servers go back, or on.
  const std::int64_t version = GENERATE(5, 6);
  CAPTURE(version);
  InnerStates third = run.again();
  LocalSteps later(run.config.train.inner_optimizer, Stepper::one_tensor());
  third.begin(1, Clock(version), Former::kCounts, later);
  LocalSteps fresh(run.config.train.inner_optimizer, Stepper::one_tensor());
  CHECK(cut_round(later, 5) == (version == 5 ? sent : cut_round(fresh, 5)));
}

// Of rounds that others followed, and under eager, where no clock says which did.
TEST_CASE("what_a_round_had_not_sent_is_in_no_delta_but_its_next_one_s") {
  SavedStates run;
  const bool eager = GENERATE(true, false);
  run.config =
      in_fragments(run.config, OptimizerKind::kSgd, eager ? ApplyMode::kEager : ApplyMode::kVersioned);
  InnerStates states = run.again();
  LocalSteps steps(run.config.train.inner_optimizer, Stepper::one_tensor());
  cut_rounds(states, steps, 4);
  states.end(1, eager);                        // killed, or lost, else
  const std::int64_t version = eager ? 4 : 5;  // whose state there is: versions 2 to 4
  LocalSteps resumed(run.config.train.inner_optimizer, Stepper::one_tensor());
  states.begin(1, Clock(version), Former::kCounts, resumed);
  LocalSteps fresh(run.config.train.inner_optimizer, Stepper::one_tensor());
  CHECK(cut_round(resumed, version) == cut_round(fresh, version));
}

// It has died after the file of version 3, and before its round in front of that was reported: others have done that.
TEST_CASE("of_a_worker_that_the_checkpoint_does_not_know_nothing_counts_though_its_file_is_of_that_version") {
  SavedStates run;
  run.config = in_fragments(run.config, GENERATE(OptimizerKind::kSgd, OptimizerKind::kAdam));
  InnerStates states = run.again();
  LocalSteps steps(run.config.train.inner_optimizer, Stepper::one_tensor());
  cut_rounds(states, steps, 3);
  REQUIRE(std::filesystem::exists(run.folder / "inner_state/0.1-v000000000003"));
  const Former former = GENERATE(Former::kNone, Former::kCounts);
  InnerStates again = run.again();
  LocalSteps resumed(run.config.train.inner_optimizer, Stepper::one_tensor());
  again.begin(1, Clock(3), former, resumed);
  LocalSteps fresh(run.config.train.inner_optimizer, Stepper::one_tensor());
  CHECK((cut_round(resumed, 3) == cut_round(fresh, 3)) == (former == Former::kNone));
}

TEST_CASE("as_many_inner_states_stay_as_servers_may_go_on_from") {
  SavedStates run;
  Stepper worker(run.config);
  run.states.begin(1, Clock(0), Former::kNone, worker.steps);
  SavedStates::train(run.states, worker, 0, 300);
  const auto kept = std::distance(std::filesystem::directory_iterator(run.folder / "inner_state"), {});
  CHECK(kept == run.config.checkpoint.keep + InnerStates::kLagMax);
  CHECK(std::filesystem::exists(run.folder / "inner_state/0.1-v000000000300"));
}

}  // namespace paceline::test
