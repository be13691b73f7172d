// Histogram buckets: contiguous, and within 1.6 % everywhere.
#include "common/timing/histogram.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <limits>

using namespace paceline;

TEST_CASE("short_durations_have_a_bucket_each") {
  for (std::int64_t ns = 0; ns < 64; ++ns) REQUIRE(histogram_middle_ns(histogram_bucket(ns)) == ns);
}

TEST_CASE("a_bucket_is_within_one_sixty_fourth_of_what_is_in_it") {
  for (std::int64_t ns = 1; ns < std::numeric_limits<std::int64_t>::max() / 17; ns = ns * 17 / 16 + 1) {
    const std::int64_t answer = histogram_middle_ns(histogram_bucket(ns));
    INFO(ns << " ns answered as " << answer);
    REQUIRE(std::llabs(answer - ns) <= ns / 64 + 1);
  }
}

TEST_CASE("buckets_ascend_without_a_gap_up_to_the_longest_duration") {
  std::uint16_t last = 0;
  for (std::int64_t ns = 0; ns < 100'000; ++ns) {
    const std::uint16_t bucket = histogram_bucket(ns);
    REQUIRE((bucket == last || bucket == last + 1));
    last = bucket;
  }
  CHECK(histogram_bucket(1000) == 190);  // the header's worked example
  CHECK(histogram_bucket(std::numeric_limits<std::int64_t>::max()) == kHistogramBuckets - 1);
  CHECK(histogram_bucket(-5) == 0);
}
