// The cut of [0, total): the first (total mod shards) ranges are one longer than the rest.
#include "common/params/partition.h"

#include <string>

#include "common/assert.h"

namespace paceline {

std::vector<Range> partition(std::int64_t total, std::uint32_t shards) {
  PACELINE_ASSERT(total >= 0, "total " + std::to_string(total));
  PACELINE_ASSERT(shards >= 1, "no shards");
  const std::int64_t base = total / shards;
  const std::int64_t longer = total % shards;
  std::vector<Range> ranges;
  ranges.reserve(shards);
  std::int64_t begin = 0;
  for (std::uint32_t k = 0; k < shards; ++k) {
    const std::int64_t end = begin + base + (k < longer ? 1 : 0);
    ranges.push_back({begin, end});
    begin = end;
  }
  return ranges;
}

}  // namespace paceline
