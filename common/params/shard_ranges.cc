#include "common/params/shard_ranges.h"

#include "common/params/borders.h"

namespace paceline {

std::vector<Range> shard_ranges(const Layout& layout, const OptimizerSection& optimizer,
                                std::uint32_t shards) {
  std::vector<Range> ranges = partition(layout.size(), shards);
  const Borders borders = borders_of(layout, {0, layout.size()}, optimizer);
  if (borders.at.empty()) return ranges;
  std::int64_t begin = 0;
  for (Range& range : ranges) {
    // Borders grow with places; the last range ends where the layout does, which is one.
    const std::int64_t end = cut_at(borders.at, range.end, borders.share);
    range = {begin, end};
    begin = end;
  }
  return ranges;
}

}  // namespace paceline
