// Worker order, however many there are and however they came: as a sort by comparison puts them.
#include "common/sync/order.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <random>
#include <vector>

#include "common/sync/actions.h"

namespace paceline::sync {
namespace {

// Some of the workers of a cluster, in random order; each weighs what tells it from the others.
std::vector<Contributor> some_of(Cluster cluster, double share, std::mt19937_64& random) {
  std::vector<Contributor> some;
  for (std::uint32_t r = 0; r < cluster.workers(); ++r) {
    if (std::uniform_real_distribution<>()(random) < share) {
      some.push_back({cluster.worker_at(Rank(r)), Clock(7), 1000 + r});
    }
  }
  std::shuffle(some.begin(), some.end(), random);
  return some;
}

TEST_CASE("contributors_come_out_in_worker_order_each_with_what_belongs_to_it") {
  std::mt19937_64 random(1);
  for (const Cluster cluster :
       {Cluster{1, 1}, {3, 4}, {2048, 1}, {2049, 1}, {1, 5000}, {100'000, 1}, {70'000, 3}, {3, 70'000}}) {
    for (const double share : {1.0, 0.3, 0.0}) {
      std::vector<Contributor> ours = some_of(cluster, share, random);
      std::vector<Contributor> expected = ours;
      std::sort(expected.begin(), expected.end());
      put_into_worker_order(ours, [](const Contributor& c) { return c.worker; });
      INFO(cluster.nodes << " nodes x " << cluster.threads_per_node << ", " << expected.size());
      CHECK(ours == expected);
    }
  }
}

TEST_CASE("ranks_that_differ_in_any_digit_come_out_in_order") {
  std::mt19937_64 random(2);
  std::vector<Rank> ranks;
  for (std::uint32_t k = 0; k < 10'000; ++k) ranks.push_back(Rank(k * 429'497U));  // over all 32 bits
  std::vector<Rank> ours = ranks;
  std::shuffle(ours.begin(), ours.end(), random);
  put_into_worker_order(ours, [](Rank rank) { return rank; });
  CHECK(ours == ranks);
}

}  // namespace
}  // namespace paceline::sync
