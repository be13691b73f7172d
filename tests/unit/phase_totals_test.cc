// Totals of several workers add up, and quantiles are those of all their occurrences.
#include "common/timing/phase_totals.h"

#include <catch2/catch.hpp>

#include "common/timing/histogram.h"

using namespace paceline;
using Catch::Contains;

namespace {
// A phase that occurred once for each duration; they must ascend by bucket.
PhaseStat stat_of(std::initializer_list<std::int64_t> durations_ns) {
  PhaseStat stat;
  for (std::int64_t ns : durations_ns) {
    ++stat.count;
    stat.total_ns += ns;
    const std::uint16_t bucket = histogram_bucket(ns);
    if (!stat.histogram.empty() && stat.histogram.back().first == bucket) {
      ++stat.histogram.back().second;
    } else {
      stat.histogram.emplace_back(bucket, 1);
    }
  }
  return stat;
}
}  // namespace

TEST_CASE("quantiles_are_by_nearest_rank") {
  const PhaseStat stat = stat_of({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20});
  CHECK(quantile_ns(stat, 0.5) == 10);
  CHECK(quantile_ns(stat, 0.95) == 19);
  CHECK(quantile_ns(stat, 0.0) == 1);
  CHECK(quantile_ns(stat, 1.0) == 20);
  CHECK(quantile_ns(PhaseStat{}, 0.5) == 0);
}

TEST_CASE("merged_totals_are_sums_and_keep_the_histograms_ascending") {
  PhaseTotals a, b;
  a[Phase::kBatch] = stat_of({10, 30});
  b[Phase::kBatch] = stat_of({20, 30, 40});
  b[Phase::kBarrier].hidden_ns = 5;
  a.wall_ns = 100;
  b.wall_ns = 200;
  merge(a, b);
  CHECK(a[Phase::kBatch].count == 5);
  CHECK(a[Phase::kBatch].total_ns == 130);
  CHECK(a[Phase::kBatch].histogram == stat_of({10, 20, 30, 30, 40}).histogram);
  CHECK(a[Phase::kBarrier].hidden_ns == 5);
  CHECK(a.wall_ns == 300);
  CHECK(unaccounted_ns(a) == 170);
  CHECK(check(a).is_ok());
}

TEST_CASE("totals_that_cannot_be_true_are_refused") {
  PhaseTotals good;
  good[Phase::kStep] = stat_of({10, 20});
  CHECK(check(good).is_ok());

  PhaseTotals bad = good;
  bad.wall_ns = -1;
  CHECK_FALSE(check(bad).is_ok());
  bad = good;
  bad[Phase::kStep].total_ns = -1;
  CHECK_THAT(check(bad).message(), Contains("STEP") && Contains("total_ns -1"));
  bad = good;
  bad[Phase::kStep].count = 3;
  CHECK_THAT(check(bad).message(), Contains("2 occurrences, expected 3"));
  bad = good;
  bad[Phase::kStep].count = 1;
  CHECK_FALSE(check(bad).is_ok());
  bad = good;
  std::swap(bad[Phase::kStep].histogram[0], bad[Phase::kStep].histogram[1]);
  CHECK_THAT(check(bad).message(), Contains("ascending"));
  bad = good;
  bad[Phase::kStep].histogram[1].first = kHistogramBuckets;
  CHECK_FALSE(check(bad).is_ok());
  bad = good;
  bad[Phase::kStep].histogram = {{10, -1}, {20, 3}};
  CHECK_FALSE(check(bad).is_ok());
}
