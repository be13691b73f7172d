// Balanced batches: what sizes come to, when they change, and which samples
// each iteration then takes.
#include "common/sync/batch_balance.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <numeric>

#include "common/random.h"
#include "common/sync/batch_plan.h"

namespace paceline::sync {
namespace {

std::int64_t sum_of(const BatchSizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
}

double longest(const BatchSizes& sizes, const std::vector<double>& seconds_each) {
  double most = 0.0;
  for (std::size_t r = 0; r < sizes.size(); ++r) {
    most = std::max(most, static_cast<double>(sizes[r]) * seconds_each[r]);
  }
  return most;
}

// The shortest longest time, by trying everything.
double best_of_all(const std::vector<double>& seconds_each, std::int64_t steps, std::size_t from = 0) {
  const double each = static_cast<double>(kBatchStep) * seconds_each[from];
  if (from + 1 == seconds_each.size()) return static_cast<double>(steps) * each;
  const auto others = static_cast<std::int64_t>(seconds_each.size() - from - 1);
  double best = HUGE_VAL;
  for (std::int64_t own = 1; own + others <= steps; ++own) {
    const double rest = best_of_all(seconds_each, steps - own, from + 1);
    best = std::min(best, std::max(static_cast<double>(own) * each, rest));
  }
  return best;
}

TEST_CASE("sizes_follow_speed_in_multiples_of_eight") {
  CHECK(balanced_sizes({1.0, 1.0, 1.3, 1.6}, 512, kBatchStep) == BatchSizes{152, 152, 112, 96});
  CHECK(balanced_sizes({2.0, 2.0, 2.0}, 96, kBatchStep) == BatchSizes{32, 32, 32});
  CHECK(balanced_sizes({1.0, 1000.0}, 64, kBatchStep) == BatchSizes{56, 8});  // nobody has none
  CHECK(balanced_sizes({1.0, 1.0, 1.0}, 64, kBatchStep) == BatchSizes{24, 24, 16});
  // Rounds of ten mini-batches of 64 (train.local_balance).
  CHECK(balanced_sizes({1.0, 1.0, 1.3, 1.6}, 2560, 64) == BatchSizes{12 * 64, 12 * 64, 9 * 64, 7 * 64});
}

TEST_CASE("no_other_sizes_have_a_shorter_longest_time") {
  CounterRandom random(1, Stream::kTest);
  for (int i = 0; i < 300; ++i) {
    std::vector<double> seconds_each(1 + random.next_below(4));
    for (double& seconds : seconds_each) seconds = std::exp(2.0 * random.next_normal());
    const auto workers = std::ssize(seconds_each);
    const std::int64_t steps = workers + static_cast<std::int64_t>(random.next_below(12));
    const BatchSizes sizes = balanced_sizes(seconds_each, steps * kBatchStep, kBatchStep);
    CHECK(longest(sizes, seconds_each) == Approx(best_of_all(seconds_each, steps)));
  }
}

TEST_CASE("sizes_add_up_and_nobody_gets_less_than_its_part_rounded_down") {
  CounterRandom random(2, Stream::kTest);
  for (int i = 0; i < 300; ++i) {
    std::vector<double> seconds_each(1 + random.next_below(200));
    for (double& seconds : seconds_each) seconds = 0.5 + random.next_double();
    const std::int64_t batch = kBatchStep * (1 + static_cast<std::int64_t>(random.next_below(32)));
    const std::int64_t total = batch * std::ssize(seconds_each);
    const BatchSizes sizes = balanced_sizes(seconds_each, total, kBatchStep);
    double speed = 0.0;
    for (const double seconds : seconds_each) speed += 1.0 / seconds;
    CHECK(sum_of(sizes) == total);
    for (std::size_t r = 0; r < sizes.size(); ++r) {
      const double part = static_cast<double>(total) / (seconds_each[r] * speed);
      CHECK((sizes[r] % kBatchStep == 0 && sizes[r] >= kBatchStep));
      // Where even one step is more than somebody's part, the others have less.
      if (batch >= 4 * kBatchStep) {
        CHECK(static_cast<double>(sizes[r]) > part - kBatchStep);
        // The large get a little more than rounding up would give them: it is their time that it adds least
        // to.
        CHECK(static_cast<double>(sizes[r]) < part + 2 * kBatchStep);
      }
    }
  }
}

// exchange.hidden: 1 s for each sample, and 20 s of exchange where the worker waited for its grant.
TEST_CASE("of_a_time_with_an_exchange_in_it_the_speed_is_that_or_more") {
  using std::chrono::seconds;
  BatchBalance balance({2, 1}, 80, kBatchStep);
  const auto fast = [&](std::int64_t samples, Seen seen) {
    balance.observe(Rank(0), samples, seconds(samples + (seen == Seen::kWithExchange ? 20 : 0)), seen);
  };
  balance.observe(Rank(1), 80, seconds(3 * 80));
  fast(80, Seen::kWithExchange);
  CHECK(balance.review());
  CHECK(balance.sizes() == BatchSizes{112, 48});  // the best that is known of it
  fast(112, Seen::kAlone);                        // which counts alone
  CHECK(balance.review());
  CHECK(balance.sizes() == BatchSizes{120, 40});
  for (int times = 0; times < 40; ++times) fast(120, Seen::kWithExchange);
  CHECK_FALSE(balance.review());
}

// Two equal workers, of which one waits for its grants, with 4 s of exchange in what is seen of it.
TEST_CASE("under_jitter_a_worker_that_is_always_held_keeps_what_its_speed_is") {
  BatchBalance balance({2, 1}, 80, kBatchStep);
  CounterRandom random(5, Stream::kTest);
  const bool sometimes_alone = GENERATE(false, true);
  for (int clock = 0; clock < 1000; ++clock) {
    for (const std::uint32_t r : {0U, 1U}) {
      const double draw = std::exp(0.3 * random.next_normal() - 0.5 * 0.3 * 0.3);
      const auto samples = static_cast<double>(balance.sizes()[r]);
      const bool held = r == 0 && !(sometimes_alone && clock % 10 == 0);
      const double seconds = samples * draw + (held ? 4.0 : 0.0);
      balance.observe(Rank(r), balance.sizes()[r], std::chrono::nanoseconds(std::llround(seconds * 1e9)),
                      held ? Seen::kWithExchange : Seen::kAlone);
    }
    if (clock % BatchBalance::kReviewClocks == 0 && clock > 100) balance.review();
    REQUIRE((balance.sizes()[0] >= 72 && balance.sizes()[0] <= 88));
  }
}

// Clocks of four nodes x four threads, each iteration as long as its node's
// factor and a lognormal draw say.
class Cluster16 {
 public:
  explicit Cluster16(double sigma) : sigma_(sigma) {}
  std::vector<double> factors{1.0, 1.0, 1.3, 1.6};
  BatchBalance balance{Cluster{4, 4}, 128, kBatchStep};
  int changes = 0;

  void run(int clocks) {
    for (int c = 0; c < clocks; ++c) {
      for (std::uint32_t r = 0; r < 16; ++r) {
        const std::int64_t samples = balance.sizes()[r];
        const double draw = std::exp(sigma_ * random_.next_normal() - 0.5 * sigma_ * sigma_);
        const double ms = 300.0 * factors[r / 4] * draw * static_cast<double>(samples) / 128.0;
        balance.observe(Rank(r), samples, std::chrono::nanoseconds(std::llround(ms * 1e6)));
      }
      if (c % BatchBalance::kReviewClocks == 0 && balance.review()) ++changes;
      REQUIRE(sum_of(balance.sizes()) == 16 * 128);
    }
  }
  // Of a node's first worker, in samples away from its part.
  double off(std::uint32_t node) const {
    double speed = 0.0;
    for (const double f : factors) speed += 4.0 / f;
    return std::fabs(static_cast<double>(balance.sizes()[node * 4]) - 2048.0 / (factors[node] * speed));
  }

 private:
  double sigma_;
  CounterRandom random_{3, Stream::kTest};
};

TEST_CASE("without_jitter_the_first_review_finds_the_sizes_and_they_stay") {
  Cluster16 cluster(0.0);
  cluster.run(1);
  CHECK(cluster.changes == 1);
  for (std::uint32_t node = 0; node < 4; ++node) CHECK(cluster.off(node) < kBatchStep);
  cluster.run(500);
  CHECK(cluster.changes == 1);
}

TEST_CASE("under_jitter_sizes_settle_and_seldom_change") {
  Cluster16 cluster(0.3);
  cluster.run(100);
  cluster.changes = 0;
  cluster.run(2000);  // 500 reviews
  CHECK(cluster.changes <= 50);
  for (std::uint32_t node = 0; node < 4; ++node) CHECK(cluster.off(node) <= 2.0 * kBatchStep);
}

TEST_CASE("a_node_that_becomes_slow_gets_less") {
  Cluster16 cluster(0.1);
  cluster.run(100);
  const std::int64_t before = cluster.balance.sizes()[0];
  cluster.factors = {3.0, 1.0, 1.3, 1.6};
  cluster.run(200);
  CHECK(cluster.balance.sizes()[0] < before / 2);
  for (std::uint32_t node = 0; node < 4; ++node) CHECK(cluster.off(node) <= 1.5 * kBatchStep);
}

TEST_CASE("nothing_changes_before_everybody_was_measured_or_among_equals") {
  BatchBalance balance(Cluster{3, 1}, 64, kBatchStep);
  balance.observe(Rank(0), 64, std::chrono::milliseconds(10));
  balance.observe(Rank(1), 64, std::chrono::milliseconds(20));
  CHECK_FALSE(balance.review());
  balance.observe(Rank(2), 64, std::chrono::nanoseconds(0));
  CHECK(balance.review());
  BatchBalance equals(Cluster{2, 1}, 64, kBatchStep);
  for (int i = 0; i < 10; ++i) {
    equals.observe(Rank(0), 64, std::chrono::microseconds(1000));
    equals.observe(Rank(1), 64, std::chrono::microseconds(1030));
  }
  CHECK_FALSE(equals.review());
}

// Two nodes of two threads, 64 samples each.
TEST_CASE("a_lost_node_is_neither_given_more_nor_waited_for") {
  BatchBalance balance(Cluster{2, 2}, 64, kBatchStep);
  const auto ms_each = [&](std::uint32_t rank, int ms) {
    for (int i = 0; i < 200; ++i) {
      const std::int64_t samples = balance.sizes()[rank];
      balance.observe(Rank(rank), samples, samples * std::chrono::milliseconds(ms));
    }
  };
  for (const std::uint32_t r : {0U, 1U, 2U, 3U}) ms_each(r, 1);
  CHECK_FALSE(balance.review());
  SECTION("it was fast, and the others become slow: none of their samples go to nobody") {
    balance.lose(Rank(2));
    balance.lose(Rank(3));
    ms_each(0, 10);
    CHECK_FALSE(balance.review());
    CHECK(balance.sizes() == BatchSizes{64, 64, 64, 64});
  }
  SECTION("it was slow: its few samples stay its own, whatever was measured of it") {
    ms_each(2, 3);
    CHECK(balance.review());
    CHECK(balance.sizes() == BatchSizes{96, 96, 32, 32});
    balance.lose(Rank(2));
    balance.lose(Rank(3));
    ms_each(0, 2);  // 192 ms, beside its 96
    CHECK_FALSE(balance.review());
    CHECK(balance.sizes() == BatchSizes{96, 96, 32, 32});
  }
  SECTION("nobody is left") {
    for (const std::uint32_t r : {0U, 1U, 2U, 3U}) balance.lose(Rank(r));
    CHECK_FALSE(balance.review());
  }
}

TEST_CASE("a_node_lost_before_it_completed_anything_does_not_end_the_balancing_of_the_others") {
  BatchBalance balance(Cluster{3, 1}, 64, kBatchStep);
  balance.observe(Rank(0), 64, std::chrono::milliseconds(10));
  balance.observe(Rank(1), 64, std::chrono::milliseconds(30));
  CHECK_FALSE(balance.review());
  balance.lose(Rank(2));
  CHECK(balance.review());
  CHECK(balance.sizes() == BatchSizes{96, 32, 64});
}

TEST_CASE("however_far_apart_workers_are_each_clock_takes_its_samples_once") {
  const Cluster cluster{3, 2};
  constexpr std::int64_t kTotal = 6 * 80 + 4,
                         kBatch = 32;  // the last clock is for four of six
  BatchPlan plan(BatchSizing::kBySpeed, cluster, kBatch, kBatchStep, kTotal);
  CounterRandom random(4, Stream::kTest);
  std::vector<std::int64_t> clocks(6, 0);
  std::map<std::int64_t, std::int64_t> parts;  // position, samples
  bool unequal = false;
  for (std::int64_t left = kTotal; left > 0;) {
    const std::int64_t slowest = *std::min_element(clocks.begin(), clocks.end());
    const auto r = static_cast<std::uint32_t>(random.next_below(6));
    const std::int64_t iteration = clocks[r] * 6 + r;
    if (clocks[r] > slowest + 3 || iteration >= kTotal) {
      if (iteration >= kTotal) clocks[r] = 1000;
      continue;
    }
    plan.forget_below(Clock(std::min<std::int64_t>(slowest, 80)));
    const BatchPart part = plan.part(Rank(r), Clock(clocks[r]), iteration);
    REQUIRE(parts.emplace(part.position, part.samples).second);
    unequal = unequal || part.samples != kBatch;
    plan.observe(Rank(r), part.samples, std::chrono::microseconds(part.samples * (1 + r / 2)));
    ++clocks[r];
    --left;
    REQUIRE(plan.clocks() <= 6);
  }
  std::int64_t next = 0;
  for (const auto& [position, samples] : parts) {
    REQUIRE(position == next);
    next += samples;
  }
  CHECK(next == kTotal * kBatch);
  CHECK(unequal);
}

// 96 samples a clock; with times of 1 : 1 : 2 they are 40 40 16 from clock 4 on.
TEST_CASE("a_clock_has_the_samples_of_those_who_compute_for_it") {
  BatchPlan plan(BatchSizing::kBySpeed, Cluster{3, 1}, 32, kBatchStep, 300);
  const auto take = [&](std::uint32_t r, std::int64_t clock) {
    return plan.part(Rank(r), Clock(clock), clock * 3 + r).samples;
  };
  for (std::uint32_t r = 0; r < 3; ++r) {
    CHECK(take(r, 0) == 32);
    plan.observe(Rank(r), 32, std::chrono::milliseconds(r == 2 ? 200 : 100));
  }
  CHECK(plan.clock_samples(Clock(0), 3) == 96);
  CHECK(take(0, 4) == 40);
  CHECK(plan.clock_samples(Clock(4), 3) == 96);
  // It completed clock 0, and nothing from clock 1 on.
  plan.lose(Rank(2), Clock(1));
  plan.lose(Rank(2), Clock(1));  // a node's loss is said once
  CHECK(plan.clock_samples(Clock(0), 3) == 96);
  CHECK(plan.clock_samples(Clock(1), 2) == 64);
  CHECK(plan.clock_samples(Clock(4), 2) == 80);
  CHECK(take(0, 5) == 40);
  CHECK(plan.clock_samples(Clock(5), 2) == 80);
  // Other sizes, looked at for clock 8: its part is still its own.
  for (int i = 0; i < 200; ++i) plan.observe(Rank(1), 40, std::chrono::milliseconds(500));
  CHECK(take(0, 8) > 40);
  CHECK(plan.clock_samples(Clock(8), 2) == 96 - plan.part(Rank(2), Clock(8), 26).samples);
}

TEST_CASE("equal_sizes_are_the_iterations_own") {
  BatchPlan plan(BatchSizing::kEqual, Cluster{2, 1}, 10, kBatchStep, 100);
  plan.observe(Rank(0), 10, std::chrono::seconds(5));
  const BatchPart part = plan.part(Rank(1), Clock(7), 15);
  CHECK((part.position == 150 && part.samples == 10));
  CHECK(plan.clock_samples(Clock(7), 2) == 20);
  plan.lose(Rank(0), Clock(7));
  CHECK(plan.clock_samples(Clock(7), 1) == 10);
  CHECK(plan.clocks() == 0);
}

}  // namespace
}  // namespace paceline::sync
