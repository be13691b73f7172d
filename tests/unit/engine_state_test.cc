// What a checkpoint holds of the core, and how a run goes on from it: what tests/sim/resume_test.cc does not spell out.
#include "common/sync/engine_state.h"

#include <catch2/catch.hpp>

#include "tests/unit/resume_fixture.h"

namespace paceline::sync {
namespace {

EngineConfig three_under_ssp(ApplyMode apply) {
  EngineConfig config;
  config.cluster = {3, 1};
  config.policy.kind = PolicyKind::kSsp;
  config.policy.threshold = 2;
  config.apply = apply;
  config.combine = CombineMode::kEach;
  config.total_iterations = 12;
  return config;
}

// They stand at clocks 4, 3 and 2.
SavedCast apart(ApplyMode apply) {
  SavedCast cast(three_under_ssp(apply));
  cast.complete({0, 1, 2, 0, 1, 2, 0, 1, 0});
  return cast;
}

void join_all(SavedCast& cast) {
  for (const std::uint32_t node : {2U, 0U, 1U}) cast.join(node);
}

TEST_CASE("versioned_what_was_held_is_done_again") {
  const EngineState state = apart(ApplyMode::kVersioned).engine().state();
  CHECK(state.version == Version(2));
  CHECK(state.revision == Revision(6));
  CHECK(state.left == IterationRanges{{6, 6}});
  SavedCast cast = resumed(three_under_ssp(ApplyMode::kVersioned), state);
  join_all(cast);
  for (const std::uint32_t node : {0U, 1U, 2U}) {
    CHECK(cast.grant(node).clock == Clock(2));
    CHECK(cast.grant(node).iteration == 6 + node);
    CHECK(cast.grant(node).revision == Revision(6));
  }
  cast.complete(0);
  CHECK(cast.grant(0).clock == Clock(3));
  CHECK(cast.iteration(0) == 9);
  CHECK(cast.engine().version() == Version(2));
}

TEST_CASE("eager_what_was_applied_beyond_the_version_is_not_done_again") {
  const EngineState state = apart(ApplyMode::kEager).engine().state();
  CHECK(state.version == Version(2));
  CHECK(state.revision == Revision(9));
  CHECK(state.left == IterationRanges{{8, 1}, {10, 2}});
  SavedCast cast = resumed(three_under_ssp(ApplyMode::kEager), state);
  join_all(cast);
  CHECK(cast.iteration(0) == 8);
  CHECK(cast.iteration(1) == 10);
  CHECK(cast.iteration(2) == 11);
  cast.complete({0, 1, 2});
  CHECK(cast.end() == EndReason::kComplete);
  CHECK(cast.engine().revision() == Revision(12));
}

// The version at the save is the oldest that anybody has, whatever the threshold would allow.
TEST_CASE("a_grant_of_a_resumed_run_asks_for_no_older_version_than_it_began_with") {
  SavedCast cast =
      resumed(three_under_ssp(ApplyMode::kVersioned), apart(ApplyMode::kVersioned).engine().state());
  join_all(cast);
  CHECK(cast.grant(0).min_version == Version(2));
  cast.complete(0);
  CHECK(cast.grant(0).min_version == Version(2));
}

TEST_CASE("a_gradient_that_is_whole_on_one_shard_of_two_is_forgotten") {
  EngineConfig config = three_under_ssp(ApplyMode::kEager);
  config.shards = 2;
  SavedCast cast(config);
  cast.arrive(0);
  CHECK(cast.engine().state().left == IterationRanges{{0, 12}});
}

TEST_CASE("an_iteration_that_was_skipped_and_closed_is_done_one_that_is_held_is_not") {
  EngineConfig config = three_under_ssp(ApplyMode::kVersioned);
  config.on_nan = OnNan::kSkip;
  SavedCast cast(config);
  cast.complete_empty(0);
  CHECK(cast.engine().state().skipped == 0);
  CHECK(cast.engine().state().left == IterationRanges{{0, 12}});
  cast.complete({1, 2});
  CHECK(cast.engine().state().skipped == 1);
  CHECK(cast.engine().state().left == IterationRanges{{3, 9}});
}

EngineConfig of_length(std::int64_t total, ApplyMode apply = ApplyMode::kVersioned) {
  EngineConfig config = three_under_ssp(apply);
  config.total_iterations = total;
  return config;
}

TEST_CASE("a_run_that_is_resumed_with_more_iterations_has_them_behind_all_others") {
  const EngineState saved = apart(ApplyMode::kEager).engine().state();
  const auto longer = with_total_iterations(saved, of_length(15, ApplyMode::kEager));
  REQUIRE(longer.is_ok());
  CHECK(longer->left == IterationRanges{{8, 1}, {10, 5}});
  CHECK(validate(*longer, of_length(15, ApplyMode::kEager)).is_ok());
  CHECK(iterations_over(*longer) == 9);
}

TEST_CASE("one_that_is_resumed_with_fewer_loses_the_last_of_those_left_and_none_that_is_done") {
  const EngineState saved = apart(ApplyMode::kEager).engine().state();  // 0 to 7 and 9 are done
  CHECK(with_total_iterations(saved, of_length(10, ApplyMode::kEager))->left == IterationRanges{{8, 1}});
  CHECK(with_total_iterations(saved, of_length(9, ApplyMode::kEager))->left.empty());
  CHECK(with_total_iterations(saved, of_length(8, ApplyMode::kEager)).status().message() ==
        "total_iterations: got 8, expected at least the 9 that are done");
}

TEST_CASE("a_run_that_is_complete_is_extended_and_its_workers_do_what_is_new") {
  SavedCast before(of_length(7));
  before.complete({0, 1, 2, 0, 1, 2, 0});
  REQUIRE(before.end() == EndReason::kComplete);
  const EngineState saved = before.engine().state();
  CHECK(nothing_is_left(saved, of_length(7)));
  const auto longer = with_total_iterations(saved, of_length(10));
  REQUIRE(longer.is_ok());
  CHECK_FALSE(nothing_is_left(*longer, of_length(10)));
  SavedCast cast = resumed(of_length(10), *longer);
  join_all(cast);
  CHECK((cast.iteration(0) == 7 && cast.iteration(1) == 8 && cast.iteration(2) == 9));
  cast.complete({0, 1, 2});
  CHECK(cast.end() == EndReason::kComplete);
  CHECK(cast.engine().revision() == Revision(10));
}

TEST_CASE("a_complete_run_that_is_resumed_as_it_was_is_complete_at_once") {
  SavedCast before(of_length(6));
  before.complete({0, 1, 2, 0, 1, 2});
  SavedCast cast = resumed(of_length(6), before.engine().state());
  join_all(cast);
  CHECK(cast.end() == EndReason::kComplete);
}

TEST_CASE("where_clocks_are_cut_for_all_workers_a_last_clock_that_was_short_cannot_be_made_whole") {
  EngineConfig config = of_length(7);
  config.policy.kind = PolicyKind::kBsp;
  config.combine = CombineMode::kMean;
  config.batch_sizing = BatchSizing::kBySpeed;
  config.batch_size = 64;
  SavedCast before(config);
  before.complete({0, 1, 2, 0, 1, 2, 0});
  const EngineState saved = before.engine().state();
  config.total_iterations = 9;
  CHECK_THAT(with_total_iterations(saved, config).status().message(),
             Catch::Contains("7 were no multiple of the 3 of a clock"));
}

TEST_CASE("a_run_that_only_skips_fails_and_one_that_skips_less_does_not") {
  EngineConfig config = of_length(80);  // so the last 20 iterations are looked at
  config.on_nan = OnNan::kSkip;
  config.skips_max = 0.5;
  SavedCast cast(config);
  const auto failed = [&](std::uint32_t node) {
    const Grant& grant = cast.grant(node);
    const auto actions = cast.take(
        StepReported{grant.worker, grant.clock, {}, grant.version, grant.revision, true, "loss", 0});
    for (const Action& action : actions) {
      if (const auto* failure = std::get_if<RunFailed>(&action)) return failure->status.message();
    }
    return std::string();
  };
  // Every third: of 20 iterations at most 7.
  for (int clock = 0; clock < 8; ++clock) {
    CHECK(failed(0).empty());
    cast.complete({1, 2});
  }
  // All of them: after 30 iterations 8 + 3 + ... of the last 20 are.
  int more = 0;
  std::string why;
  for (std::uint32_t node = 0; why.empty() && more < 20; node = (node + 1) % 3, ++more) why = failed(node);
  CHECK(why ==
        "11 of the last 20 gradients were skipped (train.on_nan: skip), "
        "more than train.skips_max allows; the last: not finite: loss");
  CHECK(cast.engine().stopping());
}

TEST_CASE("training_begins_again_when_those_who_were_there_have_joined") {
  SavedCast before(three_under_ssp(ApplyMode::kVersioned));
  before.complete({0, 1, 2});
  before.lose(1);
  SavedCast cast = resumed(three_under_ssp(ApplyMode::kVersioned), before.engine().state());
  cast.join(0);
  CHECK_FALSE(cast.engine().started());
  SECTION("without the one that was lost") {
    cast.join(2);
    CHECK(cast.engine().started());
    // It may come late; what it had begun is the others' by then.
    CHECK(cast.iteration(0) == 3);
    CHECK(cast.iteration(2) == 4);
    cast.join(1);
    CHECK(cast.engine().is_live(WorkerId(1, 0)));
  }
  SECTION("with it, if it comes before") {
    cast.join(1);
    CHECK_FALSE(cast.engine().started());
    cast.join(2);
    CHECK(cast.iteration(1) == 4);
  }
  SECTION("without one that the caller gives up") {
    cast.lose(2);
    CHECK(cast.engine().started());
    CHECK(cast.iteration(0) == 3);
  }
  SECTION("but not with nobody") {
    cast.lose(0);
    cast.lose(2);
    CHECK_FALSE(cast.engine().started());
    cast.join(1);
    CHECK(cast.engine().started());
  }
}

// With backup workers nobody comes later.
TEST_CASE("of_a_run_whose_nodes_were_all_lost_everybody_is_waited_for") {
  EngineConfig config = three_under_ssp(ApplyMode::kVersioned);
  config.combine = CombineMode::kMean;
  config.policy = {};
  config.policy.kind = PolicyKind::kBackup;
  SavedCast before(config);
  before.complete({0, 1, 2});
  for (const std::uint32_t node : {1U, 0U, 2U}) before.lose(node);
  SavedCast cast = resumed(config, before.engine().state());
  cast.join(2);
  cast.join(0);
  CHECK_FALSE(cast.engine().started());
  SECTION("they come") {
    cast.join(1);
    REQUIRE(cast.engine().started());
    for (const std::uint32_t node : {0U, 1U, 2U}) CHECK(cast.grant(node).clock == Clock(1));
  }
  SECTION("one is given up") {
    cast.lose(1);
    CHECK((cast.iteration(0) >= 0 && cast.iteration(2) >= 0));
  }
}

TEST_CASE("who_had_done_its_share_takes_part_again_in_what_is_left") {
  EngineConfig config = three_under_ssp(ApplyMode::kVersioned);
  config.total_iterations = 7;  // A does three: 0 3 6
  SavedCast before(config);
  before.complete({0, 0, 0});
  CHECK_FALSE(before.engine().is_live(WorkerId(0, 0)));
  SavedCast cast = resumed(config, before.engine().state());
  join_all(cast);
  CHECK(cast.iteration(0) == 0);
}

TEST_CASE("a_run_that_was_stopped_can_be_resumed") {
  EngineConfig config = three_under_ssp(ApplyMode::kVersioned);
  SavedCast before(config);
  before.complete({0, 0, 0});  // and is held at clock 3
  before.take(StopRequested{"signal"});
  before.complete({1, 2});
  REQUIRE(before.end() == EndReason::kStopped);
  const EngineState state = before.engine().state();
  SavedCast cast = resumed(config, state);
  join_all(cast);
  while (!cast.end()) {
    for (const std::uint32_t node : {0U, 1U, 2U}) {
      if (cast.iteration(node) >= 0) cast.complete(node);
    }
  }
  CHECK(cast.end() == EndReason::kComplete);
  CHECK(cast.engine().revision() == Revision(12));
}

// A file of before the save may be there, of the process that was lost.
TEST_CASE("who_has_completed_nothing_since_it_came_begins_anew") {
  EngineConfig config = three_under_ssp(ApplyMode::kVersioned);
  config.policy = {};
  SavedCast before(config);
  before.complete({0, 1, 2});
  before.complete(0);
  before.lose(0);
  before.join(0);  // after its stamp of clock 1, so it is held
  REQUIRE(before.engine().is_held(WorkerId(0, 0)));
  const bool granted = GENERATE(false, true);
  if (!granted) before.take(StopRequested{"signal"});
  before.complete({1, 2});
  CHECK(before.engine().version() == Version(2));
  const EngineState state = before.engine().state();
  CHECK(state.workers[0].there);
  SavedCast cast = resumed(config, state);
  join_all(cast);
  CHECK(cast.grant(0).starts_over);
  CHECK_FALSE(cast.grant(1).starts_over);
  cast.complete({0, 1, 2});
  CHECK_FALSE(cast.grant(0).starts_over);
}

TEST_CASE("the_threshold_goes_on_from_where_it_was") {
  EngineConfig config = three_under_ssp(ApplyMode::kVersioned);
  config.policy.kind = GENERATE(PolicyKind::kDtssp, PolicyKind::kRandomWalk);
  config.policy.seed = 4;
  config.policy.threshold = config.policy.threshold_min = 3;
  config.policy.threshold_max = 10;
  config.total_iterations = 300;
  config.window_clocks = 2;
  // The one is interrupted twice, once within a window; the other never is.
  SavedCast one(config), other(config);
  for (std::int64_t clock = 0; clock < 20; ++clock) {
    if (clock == 7 || clock == 12) {
      one = resumed(config, one.engine().state());
      join_all(one);
    }
    for (const std::uint32_t node : {0U, 1U, 2U}) {
      one.complete(node, 1 + clock);
      other.complete(node, 1 + clock);
    }
    CHECK(one.engine().threshold() == other.engine().threshold());
  }
  CHECK(one.engine().threshold() > Threshold(3));
  CHECK(one.windows().back().lpr == other.windows().back().lpr);
}

// What had been measured of the three that were held does not count; what is measured when they are done
// again does.
TEST_CASE("a_window_has_the_metrics_of_what_is_applied_once") {
  EngineConfig config = three_under_ssp(ApplyMode::kVersioned);
  config.window_clocks = 1;
  SavedCast before(config);
  before.complete(0, 3);
  before.complete(0, 8);
  before.complete(1, 3);
  SavedCast cast = resumed(config, before.engine().state());
  join_all(cast);
  for (const std::uint32_t node : {0U, 1U, 2U}) cast.complete(node, 5);
  for (const std::uint32_t node : {0U, 1U, 2U}) cast.complete(node, 7);
  REQUIRE(cast.windows().size() == 2);
  CHECK(cast.windows()[0].samples == 3 * 128);
  CHECK(cast.windows()[0].accuracy == Approx(15.0 / 384));
  CHECK(cast.windows()[1].accuracy == Approx(21.0 / 384));
}

TEST_CASE("a_switch_stays_in_its_stage_and_counts_what_is_applied") {
  EngineConfig config = three_under_ssp(ApplyMode::kVersioned);
  config.policy = {};
  config.policy.kind = PolicyKind::kSwitch;
  PolicyStage first, second, third;
  first.policy = PolicyKind::kBsp;
  first.until = {StageEnd::kVersion, 1};
  second.policy = PolicyKind::kSsp;
  second.threshold = 2;
  second.until = {StageEnd::kIterations, 8};
  third.policy = PolicyKind::kSsp;
  third.threshold = 7;
  config.policy.stages = {first, second, third};
  SavedCast before(config);
  before.complete({0, 1, 2, 0, 0});  // five, of which two are held
  REQUIRE(before.engine().threshold() == Threshold(2));
  SavedCast cast = resumed(config, before.engine().state());
  CHECK(cast.engine().threshold() == Threshold(2));
  join_all(cast);
  cast.complete({0, 1, 2});  // six
  CHECK(cast.engine().threshold() == Threshold(2));
  cast.complete({0, 1, 2});
  CHECK(cast.engine().threshold() == Threshold(7));
}

TEST_CASE("batches_by_speed_keep_their_sizes") {
  EngineConfig config = three_under_ssp(ApplyMode::kVersioned);
  config.combine = CombineMode::kMean;
  config.batch_sizing = BatchSizing::kBySpeed;
  config.batch_size = 32;
  config.total_iterations = 300;
  SavedCast before(config);
  for (int clock = 0; clock < 9; ++clock) {
    before.complete({1, 2});
    for (int i = 0; i < 20; ++i) before.take(Tick{});
    before.complete(0);
  }
  const EngineState state = before.engine().state();
  REQUIRE(state.batch_sizes != std::vector<std::int64_t>{32, 32, 32});
  SavedCast cast = resumed(config, state);
  join_all(cast);
  std::int64_t position = 9 * 96;
  for (const std::uint32_t node : {0U, 1U, 2U}) {
    CHECK(cast.grant(node).position == position);
    CHECK(cast.grant(node).samples == state.batch_sizes[node]);
    position += state.batch_sizes[node];
  }
}

// What is lost with a node is not waited for, and its part of a clock is nobody's.
TEST_CASE("batches_by_speed_without_one_who_does_not_come_have_fewer_samples") {
  EngineConfig config = three_under_ssp(ApplyMode::kVersioned);
  config.combine = CombineMode::kMean;
  config.batch_sizing = BatchSizing::kBySpeed;
  config.batch_size = 32;
  SavedCast cast = resumed(config, SavedCast(config).engine().state());
  cast.join(0);
  cast.join(2);
  cast.lose(1);
  CHECK(cast.grant(0).clock_samples == 64);
  CHECK(cast.grant(2).position == 64);
}

TEST_CASE("backup_workers_a_pool_gives_out_again_what_was_late_or_held") {
  EngineConfig config = three_under_ssp(ApplyMode::kVersioned);
  config.policy.kind = PolicyKind::kBackup;
  config.share = Share::kPool;
  SavedCast before(config);
  before.complete({0, 1});  // 2 is late; 0 and 1 are at 2 and 3
  before.complete(0);
  const EngineState state = before.engine().state();
  CHECK(state.dropped == 1);
  CHECK(state.left == IterationRanges{{2, 10}});
  SavedCast cast = resumed(config, state);
  join_all(cast);
  CHECK(cast.iteration(0) == 2);
  CHECK(cast.iteration(2) == 4);
}

EngineState a_state(const EngineConfig& config) {
  SavedCast cast(config);
  cast.complete({0, 1, 2});
  return cast.engine().state();
}

TEST_CASE("a_state_that_is_not_this_runs_is_refused_by_name") {
  EngineConfig config = three_under_ssp(ApplyMode::kVersioned);
  config.policy.kind = PolicyKind::kDtssp;
  config.policy.threshold = 3;
  const EngineState good = a_state(config);
  REQUIRE(validate(good, config).is_ok());
  const auto refusal = [&](auto change) {
    EngineState bad = good;
    change(bad);
    CHECK(Engine::resumed(config, bad).is_ok() == false);
    return validate(bad, config).message();
  };
  using S = EngineState;
  CHECK(refusal([](S& s) { s.cluster.nodes = 4; }) == "nodes: got 4, expected 3 as configured");
  CHECK(refusal([](S& s) { s.cluster.threads_per_node = 2; }).find("threads_per_node: got 2") == 0);
  CHECK(refusal([](S& s) { s.total_iterations = 13; }).find("total_iterations: got 13, expected 12") == 0);
  CHECK(refusal([](S& s) { s.batch_size = 64; }).find("batch_size: got 64, expected 128") == 0);
  CHECK(refusal([](S& s) { s.workers.pop_back(); }).find("workers: got 2, expected 3") == 0);
  CHECK(refusal([](S& s) { s.version = Version(-1); }).find("version: got -1, expected 0 ..") == 0);
  CHECK(refusal([](S& s) { s.revision = Revision(13); }) == "revision: got 13, expected 0 .. 12");
  CHECK(refusal([](S& s) { s.skipped = -1; }).find("skipped: got -1") == 0);
  CHECK(refusal([](S& s) { s.dropped = -1; }).find("dropped: got -1") == 0);
  CHECK(refusal([](S& s) { s.lost = INT64_MAX; }).find("lost: got") == 0);
  CHECK(refusal([](S& s) { s.max_grant_gap = Staleness(-1); }).find("max_grant_gap: got -1") == 0);
  CHECK(refusal([](S& s) { s.max_clock_gap = Staleness(-1); }).find("max_clock_gap: got -1") == 0);
  CHECK(refusal([](S& s) { s.left = {{3, 10}}; }).find("left[0]: got 10 iterations from 3") == 0);
  CHECK(refusal([](S& s) { s.left = {{3, 5}, {7, 4}}; }).find("left[1]: got 4 iterations from 7") == 0);
  CHECK(refusal([](S& s) { s.left = {{3, 8}}; }).find("left: got 8 iterations beside 3 applied") == 0);
  CHECK(refusal([](S& s) { s.revision = Revision(4); }).find("together 13, expected 12") !=
        std::string::npos);
  CHECK(refusal([](S& s) { s.lpr.window_clocks = 7; }).find("lpr.window_clocks: got 7") == 0);
  CHECK(refusal([](S& s) { s.lpr.open = {{1.0, 2, 1}}; }).find("lpr.open[0].correct: got 2") == 0);
  CHECK(refusal([](S& s) { s.lpr.open = {{1.0, 0, -1}}; }).find("lpr.open[0].samples: got -1") == 0);
  CHECK(refusal([](S& s) { s.batch_sizes = {8, 8, 8}; }).find("batch_sizes: got 3, expected 0") == 0);
  CHECK(refusal([](S& s) { s.policy.kind = PolicyKind::kSsp; }).find("policy.kind: got") == 0);
  CHECK(refusal([](S& s) { s.policy.threshold = 11; }) == "policy.threshold: got 11, expected 3 .. 10");
}

TEST_CASE("a_state_of_a_switch_or_of_batches_by_speed_that_cannot_be_is_refused_by_name") {
  EngineConfig switching = three_under_ssp(ApplyMode::kVersioned);
  switching.policy.kind = PolicyKind::kSwitch;
  PolicyStage first, second;
  first.policy = PolicyKind::kDtssp;
  first.until = {StageEnd::kVersion, 100};
  second.policy = PolicyKind::kSsp;
  switching.policy.stages = {first, second};
  EngineState state = a_state(switching);
  REQUIRE(validate(state, switching).is_ok());
  state.policy.threshold = 2;
  CHECK(validate(state, switching).message() == "policy.threshold: got 2, expected 3 .. 10");
  state.policy.stage = 2;
  CHECK(validate(state, switching).message() == "policy.stage: got 2, expected 0 .. 1");
  state.policy.stage = 1;
  state.policy.stage_begun_at = Version(2);
  CHECK(validate(state, switching).message() == "policy.stage_begun_at: got 2, expected 0 .. version 1");

  EngineConfig balanced = three_under_ssp(ApplyMode::kVersioned);
  balanced.combine = CombineMode::kMean;
  balanced.batch_sizing = BatchSizing::kBySpeed;
  EngineState sizes = a_state(balanced);
  REQUIRE(validate(sizes, balanced).is_ok());
  sizes.batch_sizes[1] = 100;
  CHECK(validate(sizes, balanced).message() == "batch_sizes[1]: got 100, expected a multiple of 8");
  sizes.batch_sizes[1] = 120;
  CHECK(validate(sizes, balanced).message().find("batch_sizes, together: got 376, expected 384") == 0);
  sizes.left = {{3, 9}};
  CHECK(validate(sizes, balanced).message().find("left: got 1 ranges, expected none") == 0);
}

}  // namespace
}  // namespace paceline::sync
