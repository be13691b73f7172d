// Which frames of a gradient have left while it is computed. It becomes final from its end to its begin, so
// the frames that may leave are, on each shard, the highest ones that have not yet.
//
// A shard's tail stays until the rest: it makes the gradient whole there, and nobody knows before the end
// that it has a loss, or that all of it is finite. So what turns out not to count can always be withdrawn. So
// that little stays, a lowest frame of more than kTailFloats is cut once more, at them.
//
// Worked example: shards [0, 10) and [10, 16), frames of 4, which are smaller than that.
//   extend(9)   shard 1: [4, 6), its [0, 4) stays     shard 0: nothing, [8, 10) is not whole yet
//   extend(3)   shard 1: nothing                      shard 0: [8, 10), [4, 8)
//   rest()      shard 1: [0, 4)                       shard 0: [0, 4)
// Shards [0, 30000) and [30000, 70000), frames of 32768:
//   extend(30000)   shard 1: [32768, 40000), [1024, 32768)     its [0, 1024) stays
//
// Where the vector is cut into fragments (exchange.fragments) frames are cut at their borders, too, but for those in a
// tail. With fragments [0, 5) and [5, 16), the first shards:
//   extend(5)   shard 1: [4, 6)     shard 0: [8, 10), [5, 8)
//
// Zhang et al., Poseidon (USENIX ATC 2017), section 3.1: wait-free backpropagation.
//
// Thread: one at a time (the training thread).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/params/partition.h"

namespace paceline {

// By shard: what is to leave of it, offsets in the shard's range, whole frames.
using ShardParts = std::vector<std::optional<Range>>;

// What of a shard leaves last, at most: little beside any gradient worth the name, enough for one header.
constexpr std::int64_t kTailFloats = 1024;

// Where the frame begins whose end is `end`, of a range cut into frames of `frame_floats` >= 1 and the tail;
// 0 of an empty one.
constexpr std::int64_t frame_begin(std::int64_t end, std::int64_t frame_floats) {
  const std::int64_t tail = std::min(frame_floats, kTailFloats);
  return end <= tail ? 0 : std::max(tail, (end - 1) / frame_floats * frame_floats);
}

// The borders between `fragments` that lie in `shard`, as offsets there, from the lowest on; none in what leaves last.
inline std::vector<std::int64_t> borders_in(const Range& shard, const std::vector<Range>& fragments,
                                            std::int64_t frame_floats) {
  std::vector<std::int64_t> borders;
  for (const Range& fragment : fragments) {
    const std::int64_t at = fragment.begin - shard.begin;
    if (at > std::min(frame_floats, kTailFloats) && at < shard.size()) borders.push_back(at);
  }
  return borders;
}
// As above, of a range with such borders.
inline std::int64_t frame_begin(std::int64_t end, std::int64_t frame_floats,
                                const std::vector<std::int64_t>& borders) {
  std::int64_t begin = frame_begin(end, frame_floats);
  for (const std::int64_t border : borders) {
    if (border < end) begin = std::max(begin, border);
  }
  return begin;
}

class GradientFrames {
 public:
  // `frame_floats` >= 1: floats of a frame, at most. `fragments`: of the flat vector; none: it is not cut.
  GradientFrames(std::vector<Range> shards, std::int64_t frame_floats,
                 const std::vector<Range>& fragments = {});

  // Elements [begin, the vector's end) are final: what may leave and has not; nullopt when that is no frame.
  std::optional<ShardParts> extend(std::int64_t begin);
  // All of it may leave: what has not, of every shard. The next gradient begins.
  ShardParts rest();
  // None of the rest will leave. By shard, whether something has; nullopt when nothing. The next gradient
  // begins.
  std::optional<std::vector<bool>> withdraw();

 private:
  const std::vector<Range> shards_;
  const std::int64_t frame_floats_;
  std::vector<std::vector<std::int64_t>> borders_;  // by shard
  std::vector<std::int64_t> left_from_;             // by shard: [left_from, size) has left
};

}  // namespace paceline
