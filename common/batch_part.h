// Which samples of the run a mini-batch is made of: `samples` positions of the concatenated epoch
// permutations, from `position` on (worker/data/sampler.h). The authority says it with each grant
// (common/sync/batch_plan.h), so that no two iterations have a sample of an epoch in common.
//
//   {96, 24}   positions 96 to 119
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace paceline {

struct BatchPart {
  std::int64_t position = 0;  // >= 0
  std::int64_t samples = 0;   // >= 1 in a grant

  auto operator<=>(const BatchPart&) const = default;
};

// "[96, 120)"
inline std::string to_string(const BatchPart& part) {
  return "[" + std::to_string(part.position) + ", " + std::to_string(part.position + part.samples) + ")";
}

}  // namespace paceline
