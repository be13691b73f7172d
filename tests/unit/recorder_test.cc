// The recorder under a clock that the test moves: attribution and the unaccounted rest are exact.
#include "common/timing/recorder.h"

#include <catch2/catch.hpp>

using namespace paceline;
using namespace std::chrono_literals;
using std::chrono::nanoseconds;

namespace {

// A recorder whose clock stands still unless the test moves it.
struct Bench {
  Ticks now{1'000'000};
  PhaseRecorder recorder{[this] { return now; }};
  void pass(nanoseconds duration) { now = now + duration; }
};

nanoseconds total_of(const PhaseTotals& totals, Phase phase) { return nanoseconds(totals[phase].total_ns); }

}  // namespace

TEST_CASE("every_instant_belongs_to_the_phase_that_was_entered") {
  Bench b;
  b.recorder.begin(Phase::kTCacheParam);
  b.pass(1ms);
  b.recorder.enter(Phase::kBatch);
  b.pass(2ms);
  b.recorder.enter(Phase::kComputeGrads);
  b.pass(40ms);
  b.recorder.enter(Phase::kBatch);
  b.pass(5ms);
  b.recorder.end();

  const PhaseTotals totals = b.recorder.totals();
  CHECK(total_of(totals, Phase::kTCacheParam) == 1ms);
  CHECK(total_of(totals, Phase::kBatch) == 7ms);
  CHECK(totals[Phase::kBatch].count == 2);
  CHECK(total_of(totals, Phase::kComputeGrads) == 40ms);
  CHECK(totals[Phase::kBarrier].count == 0);
  CHECK(nanoseconds(totals.wall_ns) == 48ms);
  CHECK(unaccounted_ns(totals) == 0);
  CHECK(check(totals).is_ok());
}

TEST_CASE("the_times_so_far_are_those_of_the_phases_that_are_over") {
  Bench b;
  CHECK(b.recorder.times() == PhaseTimes{});
  b.recorder.begin(Phase::kBatch);
  b.pass(2ms);
  b.recorder.enter(Phase::kComputeGrads);
  b.pass(40ms);
  PhaseTimes times = b.recorder.times();
  CHECK((times.wall == 2'000'000 && times[Phase::kBatch] == 2'000'000 && times[Phase::kComputeGrads] == 0));
  b.recorder.leave();
  b.pass(3ms);
  CHECK(b.recorder.times().wall == 42'000'000);
  b.recorder.enter(Phase::kBatch);
  b.pass(5ms);
  b.recorder.end();
  times = b.recorder.times();
  CHECK(times == times_of(b.recorder.totals()));
  CHECK(times.wall == 50'000'000);

  ShownTimes shown;
  PhaseTimes before;
  before.wall = 1'000;
  before[Phase::kBarrier] = 10;
  shown.begin(before);
  CHECK(shown.times() == before);
  shown.show(times);
  CHECK((shown.times().wall == 1'000 + times.wall && shown.times()[Phase::kBarrier] == 10));
  CHECK(shown.times()[Phase::kBatch] == times[Phase::kBatch]);
}

TEST_CASE("time_outside_every_phase_is_unaccounted") {
  Bench b;
  b.recorder.begin(Phase::kBatch);
  b.pass(10ms);
  b.recorder.leave();
  b.pass(3ms);
  b.recorder.enter(Phase::kBatch);
  b.pass(10ms);
  b.recorder.leave();
  b.pass(4ms);
  b.recorder.end();
  const PhaseTotals totals = b.recorder.totals();
  CHECK(nanoseconds(totals.wall_ns) == 27ms);
  CHECK(nanoseconds(unaccounted_ns(totals)) == 7ms);
}

TEST_CASE("nothing_counts_before_the_first_grant_or_after_the_last_reply") {
  Bench b;
  b.pass(1s);
  CHECK(b.recorder.totals().wall_ns == 0);
  b.recorder.begin(Phase::kBatch);
  b.pass(1ms);
  CHECK(nanoseconds(b.recorder.totals().wall_ns) == 1ms);
  b.recorder.end();
  b.pass(1s);
  CHECK(nanoseconds(b.recorder.totals().wall_ns) == 1ms);
  CHECK_FALSE(b.recorder.running());
}

TEST_CASE("the_wall_is_measured_with_a_pair_of_reads_of_its_own") {
  // A clock that moves 1 ns at each read: what lies between the wall's reads and the phase's shows as
  // unaccounted.
  std::int64_t reads = 0;
  PhaseRecorder recorder([&reads] { return Ticks(++reads); });
  recorder.begin(Phase::kBatch);  // reads 1 (wall) and 2
  recorder.enter(Phase::kStep);   // read 3
  recorder.end();                 // reads 4 and 5 (wall)
  CHECK(reads == 5);
  const PhaseTotals totals = recorder.totals();
  CHECK(totals.wall_ns == 4);
  CHECK(unaccounted_ns(totals) == 2);
}

TEST_CASE("an_exchange_is_split_and_nothing_of_it_is_lost") {
  Bench b;
  b.recorder.begin(Phase::kPsApplyGrads);
  b.pass(100ms);
  b.recorder.end_exchange({.held = 60ms, .parameters = 25ms, .report = 1ms}, Phase::kTCacheParam);
  b.pass(2ms);
  b.recorder.enter(Phase::kPsApplyGrads);
  b.pass(10ms);
  b.recorder.end_exchange({.held = 0ms, .parameters = std::nullopt, .report = 1ms}, Phase::kBatch);
  b.recorder.end();

  const PhaseTotals totals = b.recorder.totals();
  CHECK(total_of(totals, Phase::kBarrier) == 60ms);
  CHECK(total_of(totals, Phase::kPsParam) == 25ms);
  CHECK(total_of(totals, Phase::kStep) == 2ms);
  CHECK(total_of(totals, Phase::kPsApplyGrads) == 23ms);
  CHECK(total_of(totals, Phase::kTCacheParam) == 2ms);
  CHECK(unaccounted_ns(totals) == 0);
  // The exchange that was not held counts in BARRIER too; the one that fetched nothing does not count in
  // PS_PARAM.
  CHECK(totals[Phase::kBarrier].count == 2);
  CHECK(totals[Phase::kPsParam].count == 1);
}

TEST_CASE("the_parts_of_an_exchange_add_up_to_it_whatever_is_said_about_them") {
  for (auto held : {-5ms, 0ms, 30ms, 500ms}) {
    for (auto parameters : {-5ms, 0ms, 30ms, 500ms}) {
      for (auto report : {-1ms, 1ms, 500ms}) {
        for (auto total : {0ms, 40ms, 100ms}) {
          const ExchangeSplit s = split_exchange(total, {held, parameters, report});
          REQUIRE(s.barrier + s.ps_param + s.step + s.ps_apply_grads == total);
          REQUIRE(std::min({s.barrier, s.ps_param, s.step, s.ps_apply_grads}) >= 0ms);
          REQUIRE(s.barrier == std::clamp<nanoseconds>(held, 0ms, total));
        }
      }
    }
  }
}

TEST_CASE("hidden_time_stands_beside_the_phases") {
  Bench b;
  b.recorder.begin(Phase::kComputeGrads);
  b.pass(10ms);
  b.recorder.add_hidden(Phase::kPsParam, 8ms);
  b.recorder.end();
  const PhaseTotals totals = b.recorder.totals();
  CHECK(totals[Phase::kPsParam].hidden_ns == nanoseconds(8ms).count());
  CHECK(totals[Phase::kPsParam].count == 0);
  CHECK(total_of(totals, Phase::kPsParam) == 0ms);
  CHECK(unaccounted_ns(totals) == 0);
}

TEST_CASE("a_phase_that_begins_late_leaves_the_time_to_the_one_that_went_on") {
  Bench b;
  b.recorder.begin(Phase::kPCacheParam);
  b.pass(1ms);
  b.recorder.enter(Phase::kComputeGrads);
  b.pass(10ms);
  b.recorder.shift_start(3ms, Phase::kPCacheParam);
  b.pass(2ms);
  b.recorder.enter(Phase::kStep);
  b.recorder.shift_start(5ms, Phase::kBarrier);  // more than there was
  b.recorder.end();
  const PhaseTotals totals = b.recorder.totals();
  CHECK(total_of(totals, Phase::kPCacheParam) == 4ms);
  CHECK(totals[Phase::kPCacheParam].count == 1);
  CHECK(total_of(totals, Phase::kComputeGrads) == 9ms);
  CHECK(total_of(totals, Phase::kBarrier) == 0ms);
  CHECK(unaccounted_ns(totals) == 0);
}

TEST_CASE("what_was_for_nothing_is_in_no_phase_nor_in_the_wall") {
  Bench b;
  b.recorder.begin(Phase::kBatch);
  b.pass(2ms);
  b.recorder.enter(Phase::kPsApplyGrads);
  b.pass(30s);
  b.recorder.end_without_last();
  const PhaseTotals totals = b.recorder.totals();
  CHECK(totals.wall_ns == nanoseconds(2ms).count());
  CHECK(totals[Phase::kPsApplyGrads].count == 0);
  CHECK(unaccounted_ns(totals) == 0);
  CHECK_FALSE(b.recorder.running());
}

TEST_CASE("the_median_and_the_slow_tail_are_within_three_per_cent") {
  Bench b;
  b.recorder.begin(Phase::kBatch);
  for (int i = 1; i <= 1000; ++i) {
    b.pass(i * 37us);
    b.recorder.enter(Phase::kBatch);
  }
  const PhaseTotals totals = b.recorder.totals();
  CHECK(static_cast<double>(quantile_ns(totals[Phase::kBatch], 0.5)) == Approx(500 * 37e3).epsilon(0.03));
  CHECK(static_cast<double>(quantile_ns(totals[Phase::kBatch], 0.95)) == Approx(950 * 37e3).epsilon(0.03));
}
