// What a node's reductions come to, where the thread that asks and the one that reduces look at the clock in either
// order.
#include "worker/allreduce/reduction_counts.h"

#include <catch2/catch.hpp>
#include <chrono>

namespace paceline {
namespace {

using namespace std::chrono_literals;

TEST_CASE("a bucket that began after the question's clock hides nothing, and never less") {
  ReductionCounts counts;
  counts.begin(Ticks(100));
  counts.end(Ticks(130), 8);
  counts.begin(Ticks(500));
  CHECK(counts.of_round(Ticks(540)).hidden == 70ns);
  CHECK(counts.of_round(Ticks(200)).hidden == 30ns);  // asked first, answered late
  CHECK(counts.of_round(Ticks(200)).bytes == 8);
}

}  // namespace
}  // namespace paceline
