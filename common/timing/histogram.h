// Buckets for durations from 1 ns to 292 years with one relative error: 32 buckets for each power of two (the
// log-linear scheme of HdrHistogram). Durations below 64 ns have a bucket each; above, a bucket's middle is
// at most 1/64 = 1.6 % away from everything in it.
//
// Worked example: 1000 ns = 0b1111101000. Its six leading bits, 0b111110 = 62, and the 4 bits dropped make
// bucket 4 * 32 + 62 = 190, which holds [992, 1008) and answers 1000.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace paceline {

inline constexpr std::uint16_t kHistogramBuckets = 58 * 32 + 32;

// The bucket of a duration; negative ones count as 0.
constexpr std::uint16_t histogram_bucket(std::int64_t ns) {
  const auto value = static_cast<std::uint64_t>(std::max<std::int64_t>(ns, 0));
  const int dropped = std::max(static_cast<int>(std::bit_width(value)) - 6, 0);
  return static_cast<std::uint16_t>(dropped * 32 + static_cast<int>(value >> dropped));
}

// The middle of a bucket, in ns: what a quantile answers. bucket < kHistogramBuckets.
constexpr std::int64_t histogram_middle_ns(std::uint16_t bucket) {
  const int dropped = std::max(bucket / 32 - 1, 0);
  const auto low = static_cast<std::int64_t>(bucket - dropped * 32) << dropped;
  return low + ((std::int64_t{1} << dropped) >> 1);
}

}  // namespace paceline
