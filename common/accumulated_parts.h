// The parts that a mini-batch is computed in, one after another (train.accumulate): as few as have no more than
// ceil(mini-batch / accumulate) samples each, and as equal as may be.
//
//   8 samples, accumulate 3: 3 3 2      6, accumulate 4: 2 2 2      5, accumulate 4: 2 2 1
#pragma once

#include <cstdint>

namespace paceline {

// Samples of the largest and of the smallest; both arguments >= 1.
constexpr std::int64_t largest_part(std::int64_t samples, std::int64_t accumulate) {
  return (samples + accumulate - 1) / accumulate;
}
constexpr std::int64_t smallest_part(std::int64_t samples, std::int64_t accumulate) {
  const std::int64_t largest = largest_part(samples, accumulate);
  return samples / ((samples + largest - 1) / largest);
}
// Of the part that comes next when so many >= 1 samples are left.
constexpr std::int64_t next_part(std::int64_t left, std::int64_t largest) {
  const std::int64_t parts = (left + largest - 1) / largest;
  return (left + parts - 1) / parts;
}

}  // namespace paceline
