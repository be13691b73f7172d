// Sums and quantiles of phase times.
#include "common/timing/phase_totals.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "common/timing/histogram.h"

namespace paceline {
namespace {

using Buckets = std::vector<std::pair<std::uint16_t, std::int64_t>>;

// Both ascending, so is the sum.
Buckets sum_of(const Buckets& a, const Buckets& b) {
  Buckets sum;
  sum.reserve(a.size() + b.size());
  auto x = a.begin();
  auto y = b.begin();
  while (x != a.end() || y != b.end()) {
    if (y == b.end() || (x != a.end() && x->first < y->first)) {
      sum.push_back(*x++);
    } else if (x == a.end() || y->first < x->first) {
      sum.push_back(*y++);
    } else {
      sum.emplace_back(x->first, x->second + y->second);
      ++x;
      ++y;
    }
  }
  return sum;
}

Status check(Phase phase, const PhaseStat& stat) {
  const std::string name = name_of(phase);
  if (stat.count < 0 || stat.total_ns < 0 || stat.hidden_ns < 0) {
    return invalid_argument(name + ": count " + std::to_string(stat.count) + ", total_ns " +
                            std::to_string(stat.total_ns) + ", hidden_ns " + std::to_string(stat.hidden_ns) +
                            ", expected none below 0");
  }
  std::int64_t left = stat.count;
  int last = -1;
  for (const auto& [bucket, count] : stat.histogram) {
    if (bucket >= kHistogramBuckets || static_cast<int>(bucket) <= last) {
      return invalid_argument(name + ": histogram bucket " + std::to_string(bucket) + " after " +
                              std::to_string(last) + ", expected ascending below " +
                              std::to_string(kHistogramBuckets));
    }
    if (count < 1 || count > left) {
      return invalid_argument(name + ": histogram count " + std::to_string(count) + " with " +
                              std::to_string(left) + " of " + std::to_string(stat.count) +
                              " occurrences left");
    }
    left -= count;
    last = bucket;
  }
  if (left == 0) return Status::ok();
  return invalid_argument(name + ": histogram of " + std::to_string(stat.count - left) +
                          " occurrences, expected " + std::to_string(stat.count));
}

}  // namespace

PhaseTimes times_of(const PhaseTotals& totals) {
  PhaseTimes times;
  for (std::size_t i = 0; i < kPhaseCount; ++i) times.phases[i] = totals.phases[i].total_ns;
  times.wall = totals.wall_ns;
  return times;
}

void merge(PhaseTotals& into, const PhaseTotals& from) {
  for (std::size_t i = 0; i < kPhaseCount; ++i) {
    PhaseStat& sum = into.phases[i];
    const PhaseStat& stat = from.phases[i];
    sum.count += stat.count;
    sum.total_ns += stat.total_ns;
    sum.hidden_ns += stat.hidden_ns;
    sum.histogram = sum_of(sum.histogram, stat.histogram);
  }
  into.wall_ns += from.wall_ns;
}

std::int64_t unaccounted_ns(const PhaseTotals& totals) {
  std::int64_t left = totals.wall_ns;
  for (const PhaseStat& stat : totals.phases) left -= stat.total_ns;
  return left;
}

std::int64_t quantile_ns(const PhaseStat& stat, double q) {
  if (stat.count == 0) return 0;
  // Nearest rank: the smallest duration such that at least q of the occurrences are not longer.
  const auto rank = std::max<std::int64_t>(1, std::llround(std::ceil(q * static_cast<double>(stat.count))));
  std::int64_t seen = 0;
  for (const auto& [bucket, count] : stat.histogram) {
    seen += count;
    if (seen >= rank) return histogram_middle_ns(bucket);
  }
  PACELINE_ASSERT(false, "a histogram shorter than its count");
}

Status check(const PhaseTotals& totals) {
  if (totals.wall_ns < 0) return invalid_argument("wall_ns " + std::to_string(totals.wall_ns));
  for (std::size_t i = 0; i < kPhaseCount; ++i) {
    PACELINE_RETURN_IF_ERROR(check(static_cast<Phase>(i), totals.phases[i]));
  }
  return Status::ok();
}

}  // namespace paceline
