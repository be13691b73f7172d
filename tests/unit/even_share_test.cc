// EvenShare: who does which iteration, when workers come and go. Every iteration is done once.
#include "common/sync/even_share.h"

#include <catch2/catch.hpp>
#include <map>
#include <vector>

#include "common/random.h"

namespace paceline::sync {
namespace {

using Iterations = std::vector<std::int64_t>;
constexpr Rank kRank0(0), kRank1(1), kRank2(2);

EvenShare share_of(std::uint32_t workers, std::int64_t total) {
  EvenShare share(workers, total);
  for (std::uint32_t r = 0; r < workers; ++r) share.join(Rank(r));
  return share;
}

Iterations take_clock(EvenShare& share, const std::vector<Rank>& workers, Clock clock) {
  Iterations taken;
  for (const Rank worker : workers) {
    if (!share.done(worker, clock)) taken.push_back(share.take(worker, clock));
  }
  return taken;
}

TEST_CASE("with_the_same_workers_to_the_end_rank_r_does_c_k_plus_r") {
  EvenShare share = share_of(3, 8);
  CHECK(take_clock(share, {kRank0, kRank1, kRank2}, Clock(0)) == Iterations{0, 1, 2});
  CHECK(take_clock(share, {kRank0, kRank1, kRank2}, Clock(1)) == Iterations{3, 4, 5});
  CHECK(take_clock(share, {kRank0, kRank1, kRank2}, Clock(2)) == Iterations{6, 7});
  CHECK(share.done(kRank2, Clock(2)));
  CHECK(share.size() == 2);  // one plan; the list is one piece
}

// The worked example of even_share.h.
EvenShare example() {
  EvenShare share = share_of(3, 9);
  take_clock(share, {kRank0, kRank1, kRank2}, Clock(0));
  CHECK(take_clock(share, {kRank0, kRank1, kRank2}, Clock(1)) == Iterations{3, 4, 5});
  CHECK(take_clock(share, {kRank0}, Clock(2)) == Iterations{6});
  share.lose(kRank2, Clock(1), 5);
  return share;
}

TEST_CASE("what_a_lost_worker_leaves_is_done_by_those_who_are_there_after_all_else") {
  EvenShare share = example();
  CHECK(take_clock(share, {kRank1}, Clock(2)) == Iterations{7});
  CHECK(take_clock(share, {kRank0, kRank1}, Clock(3)) == Iterations{5, 8});
  CHECK(share.done(kRank0, Clock(4)));
  CHECK(share.done(kRank1, Clock(4)));
}

// Clock 2 was granted ahead (exchange.hidden): both go to the others, after all else.
TEST_CASE("what_was_given_ahead_of_a_loss_is_left_with_what_was_begun") {
  EvenShare share = share_of(3, 12);
  for (std::int64_t c = 0; c < 2; ++c) take_clock(share, {kRank0, kRank1, kRank2}, Clock(c));
  CHECK(take_clock(share, {kRank0, kRank1, kRank2}, Clock(2)) == Iterations{6, 7, 8});
  share.lose(kRank2, Clock(1), 5, 8);
  CHECK(take_clock(share, {kRank0, kRank1}, Clock(3)) == Iterations{9, 10});
  CHECK(take_clock(share, {kRank0, kRank1}, Clock(4)) == Iterations{11, 5});
  CHECK(take_clock(share, {kRank0, kRank1}, Clock(5)) == Iterations{8});
}

TEST_CASE("who_comes_below_its_plan_takes_what_nobody_has_been_given") {
  EvenShare share = example();
  share.join(kRank2);
  CHECK(take_clock(share, {kRank2}, Clock(2)) == Iterations{5});
  CHECK(take_clock(share, {kRank1}, Clock(2)) == Iterations{7});
  CHECK(take_clock(share, {kRank0}, Clock(3)) == Iterations{8});
  CHECK(share.done(kRank1, Clock(3)));
  CHECK(share.done(kRank2, Clock(3)));
}

TEST_CASE("who_comes_late_is_part_of_every_clock_that_nobody_has_begun") {
  EvenShare share(3, 20);
  share.join(kRank0);
  share.join(kRank2);
  CHECK(take_clock(share, {kRank0, kRank2}, Clock(0)) == Iterations{0, 1});
  CHECK(take_clock(share, {kRank2}, Clock(1)) == Iterations{3});  // A's is 2
  share.join(kRank1);
  CHECK(take_clock(share, {kRank1}, Clock(1)) == Iterations{4});
  CHECK(take_clock(share, {kRank1, kRank2}, Clock(2)) == Iterations{6, 7});
  CHECK(take_clock(share, {kRank0}, Clock(1)) == Iterations{2});
  CHECK(take_clock(share, {kRank0}, Clock(2)) == Iterations{5});
}

TEST_CASE("several_who_go_before_a_clock_is_begun_make_one_plan_and_what_they_leave_one_piece_each") {
  EvenShare share = share_of(3, 3000);
  for (std::int64_t c = 0; c < 500; ++c) take_clock(share, {kRank0}, Clock(c));
  share.lose(kRank1, Clock(0), std::nullopt);
  share.lose(kRank2, Clock(0), std::nullopt);
  CHECK(share.newest_change() == 1);
  CHECK(take_clock(share, {kRank0}, Clock(500)) == Iterations{1500});
  CHECK(share.newest_change() == 2);
  CHECK((share.newest().first == Clock(500) && share.newest().workers == std::vector<Rank>{kRank0}));
  CHECK(share.size() == 5);  // two plans; the list is the run and two pieces
  share.forget_below(Clock(500));
  CHECK(share.size() == 4);
}

TEST_CASE("whoever_comes_and_goes_every_iteration_is_done_once") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CounterRandom random(seed, Stream::kTest, 7);
    const auto workers = static_cast<std::uint32_t>(2 + random.next_below(5));
    const auto total = static_cast<std::int64_t>(1 + random.next_below(200));
    EvenShare share = share_of(workers, total);
    struct Worker {
      Clock clock;
      bool there = true;
    };
    std::vector<Worker> all(workers);
    std::map<std::int64_t, int> times;
    const auto min_clock = [&] {
      Clock least(1'000'000);
      for (const Worker& w : all) least = w.there ? std::min(least, w.clock) : least;
      return least;
    };
    for (;;) {
      std::vector<std::uint32_t> there, gone;
      for (std::uint32_t r = 0; r < workers; ++r) (all[r].there ? there : gone).push_back(r);
      if (there.empty()) break;
      const std::uint32_t r = there[random.next_below(there.size())];
      Worker& w = all[r];
      const auto what = random.next_below(40);
      if (what == 0 && there.size() > 1) {
        share.lose(Rank(r), w.clock, std::nullopt);
        w.there = false;
      } else if (what == 1 && !gone.empty()) {
        const std::uint32_t back = gone[random.next_below(gone.size())];
        all[back] = {std::max(min_clock(), all[back].clock), true};
        share.join(Rank(back));
      } else if (share.done(Rank(r), w.clock)) {
        // Others may still be lost: it stays, and asks again.
        if (std::all_of(there.begin(), there.end(),
                        [&](std::uint32_t o) { return share.done(Rank(o), all[o].clock); }))
          break;
      } else if (w.clock - min_clock() <= Staleness(3)) {
        const std::int64_t iteration = share.take(Rank(r), w.clock);
        if (what == 2 && there.size() > 1) {
          share.lose(Rank(r), w.clock, iteration);
          w = {w.clock.next(), false};
        } else {
          ++times[iteration];
          w.clock = w.clock.next();
        }
      }
      share.forget_below(min_clock());
    }
    INFO("seed " << seed << ", " << workers << " workers");
    REQUIRE(std::ssize(times) == total);
    REQUIRE(std::all_of(times.begin(), times.end(), [](const auto& t) { return t.second == 1; }));
  }
}

}  // namespace
}  // namespace paceline::sync
