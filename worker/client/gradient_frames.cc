#include "worker/client/gradient_frames.h"

#include <algorithm>
#include <utility>

#include "common/assert.h"

namespace paceline {

GradientFrames::GradientFrames(std::vector<Range> shards, std::int64_t frame_floats,
                               const std::vector<Range>& fragments)
    : shards_(std::move(shards)), frame_floats_(frame_floats) {
  PACELINE_ASSERT(frame_floats >= 1, std::to_string(frame_floats));
  for (const Range& range : shards_) {
    left_from_.push_back(range.size());
    borders_.push_back(borders_in(range, fragments, frame_floats));
  }
}

std::optional<ShardParts> GradientFrames::extend(std::int64_t begin) {
  ShardParts parts(shards_.size());
  bool any = false;
  for (std::size_t k = 0; k < shards_.size(); ++k) {
    // The lowest begin of a frame, the tail's apart, in what is final.
    const std::int64_t final_from = begin - shards_[k].begin;
    const std::int64_t tail = std::min(frame_floats_, kTailFloats);
    std::int64_t from =
        final_from <= tail ? tail : (final_from + frame_floats_ - 1) / frame_floats_ * frame_floats_;
    for (const std::int64_t border : borders_[k]) {
      if (border >= final_from) from = std::min(from, border);
    }
    if (from >= left_from_[k]) continue;
    parts[k] = Range{from, left_from_[k]};
    left_from_[k] = from;
    any = true;
  }
  return any ? std::optional(std::move(parts)) : std::nullopt;
}

ShardParts GradientFrames::rest() {
  ShardParts parts;
  for (std::size_t k = 0; k < shards_.size(); ++k) {
    parts.push_back(Range{0, std::exchange(left_from_[k], shards_[k].size())});
  }
  return parts;
}

std::optional<std::vector<bool>> GradientFrames::withdraw() {
  std::vector<bool> has_left;
  for (std::size_t k = 0; k < shards_.size(); ++k) {
    has_left.push_back(std::exchange(left_from_[k], shards_[k].size()) < shards_[k].size());
  }
  const bool any = std::find(has_left.begin(), has_left.end(), true) != has_left.end();
  return any ? std::optional(std::move(has_left)) : std::nullopt;
}

}  // namespace paceline
