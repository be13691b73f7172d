#include "worker/cache/snapshot.h"

#include <algorithm>

namespace paceline {

void Slice::copy_to(std::span<float> flat) const {
  for (const SlicePiece& piece : pieces) {
    const std::span<const float> floats = piece.payload.floats();
    const std::int64_t begin = range.begin + piece.offset;
    PACELINE_ASSERT(
        begin + static_cast<std::int64_t>(floats.size()) <= static_cast<std::int64_t>(flat.size()),
        "a slice reaches beyond the parameter vector");
    std::copy(floats.begin(), floats.end(), flat.begin() + begin);
  }
}

}  // namespace paceline
