// DSSP: the controller's prediction, and the extra iterations that follow from it, computed by hand.
#include "common/sync/dssp.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <vector>

#include "common/random.h"

namespace paceline::sync {
namespace {

Ticks at(double seconds) { return Ticks(static_cast<std::int64_t>(seconds * 1e9)); }

TEST_CASE("the_fastest_waits_where_its_push_comes_nearest_to_one_of_the_slowest") {
  // Fastest at 10 11 12 13 14; slowest at 11.5 14 16.5.
  const PushTimes fastest{at(9), at(10)};
  const PushTimes slowest{at(6.5), at(9)};
  CHECK(extra_iterations(fastest, slowest, 4) == 4);
  CHECK(extra_iterations(fastest, slowest, 3) == 1);  // 11 and 12 are as near to 11.5: the fewer
  CHECK(extra_iterations(fastest, slowest, 1) == 1);
  CHECK(extra_iterations(fastest, slowest, 0) == 0);
}

TEST_CASE("a_slowest_that_is_about_to_push_is_waited_for") {
  // Slowest at 10.25 12.5 14.75; fastest at 10 11 12: 0.25 from now, but 0.5 from 12.
  CHECK(extra_iterations({at(9), at(10)}, {at(5.75), at(8)}, 2) == 0);
  // It is late already, by its own pace: 9.5 12.5 15.5 is as near to 10 as to 12, 9.25 12.25 is nearer to 12.
  CHECK(extra_iterations({at(9), at(10)}, {at(3.5), at(6.5)}, 2) == 0);
  CHECK(extra_iterations({at(9), at(10)}, {at(3.25), at(6.25)}, 2) == 2);
}

TEST_CASE("a_slowest_that_stands_still_leaves_as_many_as_there_is_room_for") {
  CHECK(extra_iterations({at(9), at(10)}, {at(0), at(100)}, 7) == 7);
}

TEST_CASE("times_that_do_not_move_predict_nothing") {
  CHECK(extra_iterations({at(1), at(1)}, {at(1), at(1)}, 5) == 0);
  CHECK(extra_iterations({at(2), at(2)}, {at(1), at(2)}, 5) == 0);
}

TEST_CASE("the_prediction_is_the_best_of_all_pairs") {
  CounterRandom random(3, Stream::kTest);
  for (int i = 0; i < 2000; ++i) {
    const auto draw = [&](std::uint64_t below) {
      return static_cast<std::int64_t>(random.next_below(below));
    };
    const std::int64_t fast = 1 + draw(20), slow = 1 + draw(60), behind = draw(40), most = draw(12);
    std::int64_t best = 0, least = 1'000'000;
    for (std::int64_t r = 0; r <= most; ++r) {
      for (std::int64_t k = 0; k <= most; ++k) {
        const std::int64_t apart = std::abs(r * fast + behind - (k + 1) * slow);
        if (apart < least) best = r;
        least = std::min(least, apart);
      }
    }
    INFO("fast " << fast << ", slow " << slow << ", after " << behind << ", most " << most);
    CHECK(extra_iterations({Ticks(100 - fast), Ticks(100)}, {Ticks(100 - behind - slow), Ticks(100 - behind)},
                           most) == best);
  }
}

constexpr Rank kA{0}, kB{1}, kC{2};

// A few workers and their clocks. Training begins at 0 s, or at `begin`.
class Run {
 public:
  Run(std::int64_t low, std::int64_t high, std::uint32_t workers = 2, double begin = 0)
      : policy_(config_of(low, high)), clocks_(workers) {
    for (std::uint32_t r = 0; r < workers; ++r) table_.add(Clock(0));
    for (std::uint32_t r = 0; r < workers; ++r) policy_.on_clock(Rank(r), Clock(0), at(begin), table_);
  }
  void completes(Rank worker, double seconds) {
    Clock& clock = clocks_[worker.value];
    table_.advance(clock);
    clock = clock.next();
    policy_.on_clock(worker, clock, at(seconds), table_);
  }
  void leaves(Rank worker) {
    policy_.on_departure(worker);
    table_.remove(clocks_[worker.value]);
  }
  // It is back, at `clock`.
  void comes_back(Rank worker, Clock clock, double seconds) {
    clocks_[worker.value] = clock;
    table_.add(clock);
    policy_.on_clock(worker, clock, at(seconds), table_);
  }
  Threshold of(Rank worker) const { return of(worker, clocks_[worker.value]); }
  Threshold of(Rank worker, Clock clock) const { return policy_.threshold_for(worker, clock); }

 private:
  static PolicyConfig config_of(std::int64_t low, std::int64_t high) {
    PolicyConfig config;
    config.kind = PolicyKind::kDssp;
    config.threshold_min = low;
    config.threshold_max = high;
    return config;
  }
  ClockTable table_;
  Dssp policy_;
  std::vector<Clock> clocks_;
};

TEST_CASE("extra_iterations_last_until_they_are_done_and_no_longer") {
  Run run(1, 4);
  run.completes(kB, 5);  // next at 10
  run.completes(kA, 6);
  run.completes(kA, 7);
  CHECK(run.of(kA) == Threshold(1));
  run.completes(kA, 8);  // clock 3, lead 2, next at 9 and 10: two extra, the second with lead 3
  CHECK(run.of(kA) == Threshold(3));
  CHECK(run.of(kA, Clock(4)) == Threshold(3));
  CHECK(run.of(kA, Clock(5)) == Threshold(1));  // granted ahead it is none of the two
  CHECK(run.of(kB) == Threshold(1));
  run.completes(kA, 9);
  CHECK(run.of(kA) == Threshold(3));
  run.completes(kA, 10);  // lead 4, none left; asked again: the slowest is to push now
  CHECK(run.of(kA) == Threshold(1));
}

TEST_CASE("who_comes_back_has_none_of_the_extra_iterations_that_it_had") {
  Run run(1, 4);
  run.completes(kB, 5);
  for (const double t : {6.0, 7.0, 8.0}) run.completes(kA, t);
  CHECK(run.of(kA) == Threshold(3));  // for clocks 3 and 4
  run.leaves(kA);
  run.comes_back(kA, Clock(4), 8.5);
  CHECK(run.of(kA) == Threshold(1));
}

TEST_CASE("no_lead_beyond_the_range") {
  Run run(0, 2);
  run.completes(kA, 1);
  run.completes(kB, 100);
  run.completes(kA, 101);  // lead 1; by its last interval it pushes next at 201, the slowest at 200
  CHECK(run.of(kA) == Threshold(1));
  run.completes(kA, 102);  // far sooner: lead 2, room for one more
  CHECK(run.of(kA) == Threshold(2));
  run.completes(kA, 103);  // lead 3 > 2: none
  CHECK(run.of(kA) == Threshold(0));
}

TEST_CASE("who_is_not_the_fastest_waits") {
  Run run(0, 5, 3);
  run.completes(kB, 9);
  run.completes(kC, 10);  // next at 20
  for (const double t : {10.2, 10.4, 10.6, 10.8, 11.0}) run.completes(kA, t);
  CHECK(run.of(kA) == Threshold(5));
  for (const double t : {11.5, 12.0}) run.completes(kB, t);
  CHECK(run.of(kB) == Threshold(0));  // it leads by 2; three extra iterations would take it near to 20
  CHECK(run.of(kA) == Threshold(5));
  CHECK(run.of(kC) == Threshold(0));
}

// Until the slowest pushes a first time only its begin is known, which is no interval, whenever it was.
TEST_CASE("a_slowest_that_has_not_pushed_predicts_nothing") {
  Run run(0, 5, 2, 100);
  run.completes(kA, 101);
  CHECK(run.of(kA) == Threshold(0));
  run.completes(kA, 102);
  CHECK(run.of(kA) == Threshold(0));
}

// How many iterations beyond a lead of s_L = 0 worker a, which takes `fast`, is granted while b, which takes
// `slow`, does its second hundred. In eighths of a second, which are whole nanoseconds.
int extra_once_it_has_waited(int fast, int slow) {
  Run run(0, 5);
  int extra = 0;
  std::int64_t lead = 0;
  bool held = false;
  for (int a_at = fast, b_at = slow, b_clock = 0; b_clock < 200;) {
    const bool a_pushes = !held && a_at < b_at;
    const int now = a_pushes ? a_at : b_at;
    run.completes(a_pushes ? kA : kB, now / 8.0);
    lead += a_pushes ? 1 : -1;
    if (!a_pushes) b_at += slow, ++b_clock;
    if (!a_pushes && !held) continue;
    held = lead > run.of(kA).value();
    if (held) continue;
    a_at = now + fast;
    if (lead > 0 && b_clock >= 100) ++extra;
  }
  return extra;
}

// Its interval contains what it waited, and the slowest is then always nearer than an iteration from now.
TEST_CASE("up_to_twice_as_slow_a_slowest_is_waited_for_at_every_clock") {
  CHECK(extra_once_it_has_waited(8, 13) == 0);
  CHECK(extra_once_it_has_waited(8, 16) == 0);
  CHECK(extra_once_it_has_waited(8, 20) > 20);
  CHECK(extra_once_it_has_waited(8, 24) > 20);
}

TEST_CASE("a_policy_that_begins_later_begins_where_the_workers_stand") {
  ClockTable table;
  for (int i = 0; i < 2; ++i) table.add(Clock(0));
  for (int clock = 0; clock < 5; ++clock) table.advance(Clock(clock));
  PolicyConfig config;
  config.kind = PolicyKind::kDssp;
  config.threshold_min = 1;
  config.threshold_max = 6;
  Dssp policy(config);
  policy.on_clock(Rank(0), Clock(5), at(100),
                  table);  // the fast one first; nothing is known of the other yet
  policy.on_clock(Rank(1), Clock(0), at(100), table);
  CHECK(policy.threshold_for(Rank(0), Clock(5)) == Threshold(1));
  table.advance(Clock(0));
  policy.on_clock(Rank(1), Clock(1), at(110), table);
  table.advance(Clock(5));
  policy.on_clock(Rank(0), Clock(6), at(112), table);  // next at 124 and 136, the slowest at 120 130 140: one
  CHECK(policy.threshold_for(Rank(0), Clock(6)) == Threshold(5));
}

TEST_CASE("who_has_left_is_not_the_slowest") {
  const auto threshold_of_a = [](bool leaves) {
    Run run(0, 5, 3);
    run.completes(kB, 3);  // next at 6
    run.completes(kC, 4);  // the last to get there; next at 8
    run.completes(kA, 4.5);
    if (leaves) run.leaves(kC);
    run.completes(kA, 5);  // next at 5.5 6 6.5 7 7.5, no more
    return run.of(kA);
  };
  CHECK(threshold_of_a(false) == Threshold(5));  // by c: as near to 8 as there is room for
  CHECK(threshold_of_a(true) == Threshold(2));   // by b: two extra, the second with lead 2
}

}  // namespace
}  // namespace paceline::sync
