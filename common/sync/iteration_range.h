// IterationRange: iterations of a run that follow one another. What is left of a run when it is saved is a
// list of these: everything after what was handed out, and the gaps before it (engine_state.h).
//
//   total 12, versioned, version 2 of 3 workers:       [6, 12)
//   eager, 0 to 5, 7 and 9 are applied:                [6, 7) [8, 9) [10, 12)
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace paceline::sync {

struct IterationRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool operator==(const IterationRange&) const = default;
};

using IterationRanges = std::vector<IterationRange>;

// The same iterations in ascending order, in as few ranges as there can be; no two of those given overlap.
inline IterationRanges in_order(IterationRanges ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  IterationRanges joined;
  for (const IterationRange& range : ranges) {
    if (range.count == 0) continue;
    if (!joined.empty() && joined.back().first + joined.back().count == range.first) {
      joined.back().count += range.count;
    } else {
      joined.push_back(range);
    }
  }
  return joined;
}

}  // namespace paceline::sync
