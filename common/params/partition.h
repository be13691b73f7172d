// How the flat parameter vector is cut into shards: contiguous, nearly equal, a pure function of its
// arguments.
#pragma once

#include <cstdint>
#include <vector>

namespace paceline {

// Elements [begin, end) of the flat parameter vector, in floats.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  constexpr std::int64_t size() const { return end - begin; }
  constexpr bool operator==(const Range&) const = default;
};

// Cuts [0, total) into `shards` ranges whose sizes differ by at most one; every element is in exactly one.
// total >= 0, shards >= 1. With fewer elements than shards the last ranges are empty.
std::vector<Range> partition(std::int64_t total, std::uint32_t shards);

}  // namespace paceline
