// The learning progress ratio and its windows.
#include "common/sync/lpr.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "common/metric_sum.h"

namespace paceline::sync {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST_CASE("positive_always_means_progress") {
  CHECK(learning_progress_ratio(LprMetric::kAccuracy, 0.40, 0.44) == Approx(10.0));
  CHECK(learning_progress_ratio(LprMetric::kAccuracy, 0.40, 0.38) == Approx(-5.0));
  CHECK(learning_progress_ratio(LprMetric::kLoss, 2.0, 1.8) == Approx(10.0));
  CHECK(learning_progress_ratio(LprMetric::kLoss, 2.0, 2.1) == Approx(-5.0));
  CHECK(learning_progress_ratio(LprMetric::kLoss, -2.0, -2.2) == Approx(10.0));  // a loss may be negative
}

TEST_CASE("from_zero_any_gain_is_above_every_limit") {
  CHECK(learning_progress_ratio(LprMetric::kAccuracy, 0.0, 0.001) == kInfinity);
  CHECK(learning_progress_ratio(LprMetric::kAccuracy, 0.0, 0.0) == 0.0);
  CHECK(learning_progress_ratio(LprMetric::kLoss, 0.0, 0.1) == -kInfinity);
}

TEST_CASE("a_metric_that_is_not_a_number_is_neither_above_nor_below") {
  const double lpr = learning_progress_ratio(LprMetric::kLoss, 1.0, std::nan(""));
  CHECK_FALSE(lpr > 5.0);
  CHECK_FALSE(lpr < -5.0);
}

TEST_CASE("a_window_is_weighted_by_samples") {
  LprTracker tracker(LprMetric::kAccuracy, 1);
  tracker.add(Clock(0), {3.0, 1, 1});
  tracker.add(Clock(0), {1.0, 0, 3});
  const auto window = tracker.on_version(Version(1));
  REQUIRE(window);
  CHECK(window->loss_mean == Approx(1.0));
  CHECK(window->accuracy == Approx(0.25));
  CHECK(window->samples == 4);
  CHECK_FALSE(window->lpr);
}

TEST_CASE("what_nobody_has_counted_has_no_accuracy_and_no_progress_by_it") {
  LprTracker tracker(LprMetric::kAccuracy, 1);
  tracker.add(Clock(0), {0.0, 1, 10});
  tracker.add(Clock(1), {0.0, 9, 10});
  tracker.add(Clock(1), {4.0, Metric::kNotCounted, 10});
  tracker.add(Clock(2), {0.0, 2, 10});
  CHECK(tracker.on_version(Version(1)));
  const auto window = tracker.on_version(Version(2));
  REQUIRE(window);
  CHECK((!window->accuracy && !window->lpr && window->loss_mean == Approx(0.2)));
  CHECK(*tracker.on_version(Version(3))->lpr == Approx(100.0));  // against the first
}

TEST_CASE("a_window_gathers_by_timestamp_and_closes_by_version") {
  LprTracker tracker(LprMetric::kAccuracy, 2);
  tracker.add(Clock(0), {0.0, 2, 10});
  tracker.add(Clock(2), {0.0, 9, 10});  // of the next window already
  CHECK_FALSE(tracker.on_version(Version(1)));
  tracker.add(Clock(1), {0.0, 4, 10});
  const auto first = tracker.on_version(Version(2));
  REQUIRE(first);
  CHECK(first->index == 0);
  CHECK(first->accuracy == Approx(0.3));
  CHECK_FALSE(tracker.on_version(Version(3)));
  const auto second = tracker.on_version(Version(4));
  REQUIRE(second);
  CHECK(*second->lpr == Approx(200.0));
  CHECK(tracker.open_windows() == 0);
}

TEST_CASE("a_window_without_data_is_skipped") {
  LprTracker tracker(LprMetric::kAccuracy, 1);
  tracker.add(Clock(0), {0.0, 4, 10});
  REQUIRE(tracker.on_version(Version(1)));
  CHECK_FALSE(tracker.on_version(Version(2)));
  tracker.add(Clock(2), {0.0, 5, 10});
  const auto third = tracker.on_version(Version(3));
  REQUIRE(third);
  CHECK(third->index == 2);
  CHECK(*third->lpr == Approx(25.0));
}

TEST_CASE("what_nobody_has_counted_takes_the_accuracy_of_its_own_differences_alone") {
  MetricSum sum;
  sum += {4.0, 1, 4};
  const MetricSum first = sum;
  sum += {2.0, Metric::kNotCounted, 4};
  const MetricSum second = sum;
  sum += {3.0, 2, 4};
  CHECK(sum.samples() == 12);
  CHECK(accuracy_of(first - MetricSum()) == 0.25);
  CHECK_FALSE(accuracy_of(second - first).has_value());
  CHECK_FALSE(accuracy_of(sum - first).has_value());
  CHECK((accuracy_of(sum - second) == 0.5 && loss_of(sum - second) == 0.75));
}

}  // namespace
}  // namespace paceline::sync
