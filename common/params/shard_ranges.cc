#include "common/params/shard_ranges.h"

namespace paceline {
namespace {

// The border of a tensor that is nearest to `at`, the lower of two.
std::int64_t nearest_border(const Layout& layout, std::int64_t at) {
  std::int64_t below = 0;
  for (const Tensor& tensor : layout.tensors()) {
    const std::int64_t border = tensor.offset + tensor.size();
    if (border >= at) return border - at < at - below ? border : below;
    below = border;
  }
  return below;
}

}  // namespace

std::vector<Range> shard_ranges(const Layout& layout, const OptimizerSection& optimizer,
                                std::uint32_t shards) {
  std::vector<Range> ranges = partition(layout.size(), shards);
  if (!measures_tensors(optimizer.kind)) return ranges;
  std::int64_t begin = 0;
  for (Range& range : ranges) {
    // Borders grow with places; the last range ends where the layout does, which is one.
    const std::int64_t end = nearest_border(layout, range.end);
    range = {begin, end};
    begin = end;
  }
  return ranges;
}

}  // namespace paceline
