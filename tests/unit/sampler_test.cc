// The shuffle: every epoch a permutation, every epoch another one, and the workers' shares fit together.
#include "worker/data/sampler.h"

#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <numeric>
#include <vector>

namespace paceline {
namespace {

std::vector<std::int64_t> epoch_of(const Sampler& sampler, std::int64_t epoch) {
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < sampler.samples(); ++i) {
    order.push_back(sampler.at(epoch * sampler.samples() + i).sample);
  }
  return order;
}

bool is_permutation_of_all(std::vector<std::int64_t> order) {
  std::sort(order.begin(), order.end());
  std::vector<std::int64_t> all(order.size());
  std::iota(all.begin(), all.end(), 0);
  return order == all;
}

TEST_CASE("an_epoch_visits_each_sample_exactly_once_for_any_size_seed_and_epoch") {
  CHECK(rc::check([] {
    const auto samples = *rc::gen::inRange<std::int64_t>(1, 3000);
    const auto epoch = *rc::gen::inRange<std::int64_t>(0, 1'000'000);
    const Sampler sampler(samples, *rc::gen::arbitrary<std::uint64_t>());
    RC_ASSERT(is_permutation_of_all(epoch_of(sampler, epoch)));
  }));
}

TEST_CASE("the_size_of_CIFAR_10_is_a_permutation_too") {
  CHECK(is_permutation_of_all(epoch_of(Sampler(50000, 1), 3)));
}

TEST_CASE("a_position_knows_its_epoch") {
  const Sampler sampler(5, 7);
  CHECK(sampler.at(4).epoch == 0);
  CHECK(sampler.at(5).epoch == 1);
  CHECK(sampler.at(14).epoch == 2);
}

TEST_CASE("the_order_is_a_function_of_the_seed_and_differs_between_seeds_and_epochs") {
  const Sampler sampler(1000, 1);
  CHECK(epoch_of(sampler, 0) == epoch_of(Sampler(1000, 1), 0));
  CHECK(epoch_of(sampler, 0) != epoch_of(sampler, 1));
  CHECK(epoch_of(sampler, 0) != epoch_of(Sampler(1000, 2), 0));
}

// A change of this order makes every run incomparable with those before it: it must be meant.
TEST_CASE("the_order_of_seed_1_stays_what_it_is") {
  CHECK(epoch_of(Sampler(10, 1), 0) == std::vector<std::int64_t>{4, 7, 3, 1, 0, 5, 2, 8, 9, 6});
  CHECK(epoch_of(Sampler(10, 1), 1) == std::vector<std::int64_t>{0, 2, 5, 1, 8, 9, 3, 6, 7, 4});
}

// K workers at clock c run iterations cK .. cK + K - 1 of n samples; one worker with n K runs iteration c.
TEST_CASE("the_mini_batches_of_K_workers_at_one_clock_are_the_K_fold_one_of_one_worker") {
  CHECK(rc::check([] {
    const auto samples = *rc::gen::inRange<std::int64_t>(1, 500);
    const auto n = *rc::gen::inRange<std::int64_t>(1, 20);
    const auto workers = *rc::gen::inRange<std::int64_t>(1, 17);
    const auto clock = *rc::gen::inRange<std::int64_t>(0, 100);
    const Sampler sampler(samples, 3);
    std::vector<SampleRef> together;
    for (std::int64_t rank = 0; rank < workers; ++rank) {
      const std::int64_t iteration = clock * workers + rank;
      for (std::int64_t i = 0; i < n; ++i) together.push_back(sampler.at(iteration * n + i));
    }
    std::vector<SampleRef> alone;
    for (std::int64_t i = 0; i < n * workers; ++i) alone.push_back(sampler.at(clock * n * workers + i));
    RC_ASSERT(together == alone);
  }));
}

// The positions of a node's workers, one clock after another.
TEST_CASE("with_fixed_parts_a_node_s_epochs_are_each_a_permutation_of_its_own_samples") {
  CHECK(rc::check([] {
    FixedParts parts;
    parts.nodes = *rc::gen::inRange<std::int64_t>(1, 6);
    parts.workers = *rc::gen::inRange<std::int64_t>(1, 4);
    parts.round = *rc::gen::inRange<std::int64_t>(1, 9);
    const auto samples = *rc::gen::inRange<std::int64_t>(parts.nodes, 60);
    const Sampler sampler(samples, 3, parts);
    const std::int64_t in_a_turn = parts.workers * parts.round;
    for (std::int64_t node = 0; node < parts.nodes; ++node) {
      std::vector<std::int64_t> part;
      for (std::int64_t i = node; i < samples; i += parts.nodes) part.push_back(i);
      std::vector<std::int64_t> epoch;
      for (std::int64_t place = 0; place < 2 * std::ssize(part); ++place) {
        const SampleRef ref =
            sampler.at((place / in_a_turn * parts.nodes + node) * in_a_turn + place % in_a_turn);
        RC_ASSERT(ref.epoch == place / std::ssize(part));
        epoch.push_back(ref.sample);
        if (std::ssize(epoch) < std::ssize(part)) continue;
        std::sort(epoch.begin(), epoch.end());
        RC_ASSERT(epoch == part);
        epoch.clear();
      }
    }
  }));
}

TEST_CASE("the_part_of_one_node_is_all_in_the_order_of_no_parts") {
  const Sampler plain(50, 7);
  const Sampler alone(50, 7, {.nodes = 1, .workers = 3, .round = 4});
  for (std::int64_t position = 0; position < 120; ++position) CHECK(alone.at(position) == plain.at(position));
}

// Over 20,000 epochs of 10 samples sample 0 is expected 2000 times at each place, with a standard deviation
// of 42, and 2222 times (44) at each distance from sample 1. Five deviations are allowed.
TEST_CASE("a_sample_lands_everywhere_equally_often_independently_of_its_neighbour") {
  const Sampler sampler(10, 5);
  std::vector<int> place(10, 0);
  std::vector<int> distance(10, 0);
  constexpr int kEpochs = 20000;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const auto order = epoch_of(sampler, epoch);
    const auto zero = std::find(order.begin(), order.end(), 0) - order.begin();
    const auto one = std::find(order.begin(), order.end(), 1) - order.begin();
    ++place[static_cast<std::size_t>(zero)];
    ++distance[static_cast<std::size_t>((one - zero + 10) % 10)];
  }
  for (const int count : place) CHECK(std::abs(count - 2000) < 210);
  for (std::size_t d = 1; d < 10; ++d) CHECK(std::abs(distance[d] - 2222) < 225);
}

}  // namespace
}  // namespace paceline
