// ClockTable and DeferredGrants: who is slowest, and whom that releases.
#include "common/sync/clock_table.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "common/random.h"
#include "common/sync/deferred_grants.h"

namespace paceline::sync {
namespace {

ClockTable table_of(int workers) {
  ClockTable table;
  for (int i = 0; i < workers; ++i) table.add(Clock(0));
  return table;
}

TEST_CASE("the_min_clock_moves_only_with_the_last_worker_that_stands_there") {
  ClockTable table = table_of(2);
  table.advance(Clock(0));
  CHECK(table.min_clock() == Clock(0));
  CHECK(table.max_clock() == Clock(1));
  table.advance(Clock(0));
  CHECK(table.min_clock() == Clock(1));
}

TEST_CASE("the_min_clock_jumps_over_clocks_where_nobody_stands_when_the_slowest_leaves") {
  ClockTable table = table_of(2);
  for (int c = 0; c < 5; ++c) table.advance(Clock(c));
  table.remove(Clock(0));
  CHECK(table.min_clock() == Clock(5));
  CHECK(table.live() == 1);
}

TEST_CASE("the_max_clock_falls_when_the_fastest_leaves") {
  ClockTable table = table_of(2);
  for (int c = 0; c < 5; ++c) table.advance(Clock(c));
  table.remove(Clock(5));
  CHECK(table.max_clock() == Clock(0));
  table.remove(Clock(0));
  CHECK(table.empty());
}

// One that completed these stamps, and those that it completed before it joined the last time.
struct Listed {
  Clock clock;
  std::vector<bool> completed;  // by stamp

  void complete() {
    completed.resize(static_cast<std::size_t>(clock.value) + 1);
    completed.back() = true;
    clock = clock.next();
  }
};

TEST_CASE("the_table_agrees_with_a_search_over_all_workers") {
  CounterRandom random(3, Stream::kTest);
  ClockTable table = table_of(20);
  std::vector<Listed> live(20), departed;
  for (int i = 0; i < 5000; ++i) {
    const std::size_t w = random.next_below(live.size());
    const Clock slowest_now = table.min_clock();
    if (live.size() > 3 && random.next_below(200) == 0) {
      table.remove(live[w].clock);
      departed.push_back(live[w]);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(w));
    } else if (!departed.empty() && random.next_below(100) == 0) {
      // It comes back after the stamp that it lost, at the min clock at the earliest.
      Listed back = departed.back();
      departed.pop_back();
      back.clock = std::max(back.clock.next(), slowest_now);
      table.add(back.clock);
      live.push_back(back);
    } else {
      table.advance(live[w].clock);
      live[w].complete();
    }
    const auto [slowest, fastest] = std::minmax_element(
        live.begin(), live.end(), [](const Listed& a, const Listed& b) { return a.clock < b.clock; });
    REQUIRE(table.min_clock() == slowest->clock);
    REQUIRE(table.max_clock() == fastest->clock);
    for (Clock stamp = slowest->clock; stamp <= fastest->clock; stamp = stamp.next()) {
      const auto at = static_cast<std::size_t>(stamp.value);
      const auto completes = [&](const Listed& one) {
        return at < one.completed.size() && one.completed[at];
      };
      const auto will = std::count_if(
          live.begin(), live.end(), [&](const Listed& one) { return one.clock <= stamp || completes(one); });
      REQUIRE(table.contributors(stamp) == will + std::count_if(departed.begin(), departed.end(), completes));
    }
    REQUIRE(table.span() == static_cast<std::size_t>((fastest->clock - slowest->clock).value + 1));
  }
}

TEST_CASE("who_joins_at_the_min_clock_contributes_from_there_on") {
  ClockTable clocks;
  for (int i = 0; i < 2; ++i) clocks.add(Clock(0));
  for (const std::int64_t c : {0, 1, 2}) clocks.advance(Clock(c));
  clocks.advance(Clock(0));
  clocks.add(Clock(1));
  CHECK(clocks.min_clock() == Clock(1));
  CHECK(clocks.contributors(Clock(1)) == 3);
  CHECK(clocks.contributors(Clock(3)) == 3);
}

TEST_CASE("who_departed_ahead_of_a_clock_still_contributes_to_it") {
  ClockTable clocks;
  for (int i = 0; i < 3; ++i) clocks.add(Clock(0));
  for (std::int64_t c = 0; c < 2; ++c) clocks.advance(Clock(c));
  clocks.remove(Clock(2));  // completed stamps 0 and 1, then finished
  CHECK(clocks.contributors(Clock(0)) == 3);
  CHECK(clocks.contributors(Clock(1)) == 3);
  CHECK(clocks.contributors(Clock(2)) == 2);
  clocks.remove(Clock(0));  // died in its first iteration
  CHECK(clocks.contributors(Clock(0)) == 2);
}

TEST_CASE("the_held_are_released_by_the_floor_they_need_and_then_in_worker_order") {
  DeferredGrants held;
  held.add(Rank(7), Clock(4));
  held.add(Rank(2), Clock(4));
  held.add(Rank(1), Clock(5));
  held.add(Rank(9), Clock(3));
  CHECK(held.take_released(Clock(2)).empty());
  CHECK(held.take_released(Clock(4)) == std::vector<Rank>{Rank(9), Rank(2), Rank(7)});
  CHECK(held.size() == 1);
  held.remove(Rank(1), Clock(5));
  CHECK(held.size() == 0);
}

TEST_CASE("whoever_is_taken_out_of_the_held_leaves_the_others_where_they_are") {
  DeferredGrants held;
  for (const std::uint32_t worker : {5U, 1U, 8U, 3U}) held.add(Rank(worker), Clock(4));
  held.remove(Rank(1), Clock(4));  // whose place another one takes
  held.remove(Rank(3), Clock(4));  // that one
  held.add(Rank(1), Clock(4));
  CHECK(held.size() == 3);
  CHECK(held.take_released(Clock(4)) == std::vector<Rank>{Rank(1), Rank(5), Rank(8)});
}

TEST_CASE("all_the_held_are_taken_in_worker_order") {
  DeferredGrants held;
  held.add(Rank(7), Clock(4));
  held.add(Rank(2), Clock(6));
  CHECK(held.take_all() == std::vector<Rank>{Rank(2), Rank(7)});
  CHECK(held.size() == 0);
}

}  // namespace
}  // namespace paceline::sync
