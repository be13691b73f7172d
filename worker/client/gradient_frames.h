// Which frames of a gradient have left while it is computed. It becomes final from its end to its begin, so
// the frames that may leave are, on each shard, the highest ones that have not yet.
//
// A shard's lowest frame stays until the rest: it makes the gradient whole there, and nobody knows before the
// end that all of it is finite. So what turns out not to be can always be withdrawn.
//
// Worked example: shards [0, 10) and [10, 16), frames of 4.
//   extend(9)   shard 1: [4, 6), its [0, 4) stays     shard 0: nothing, [8, 10) is not whole yet
//   extend(3)   shard 1: nothing                      shard 0: [8, 10), [4, 8)
//   rest()      shard 1: [0, 4)                       shard 0: [0, 4)
//
// Thread: one at a time (the training thread).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/params/partition.h"

namespace paceline {

// By shard: what is to leave of it, offsets in the shard's range, on the grid of its frames.
using ShardParts = std::vector<std::optional<Range>>;

class GradientFrames {
 public:
  // `frame_floats` >= 1: floats of a frame, at most.
  GradientFrames(std::vector<Range> shards, std::int64_t frame_floats);

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
  std::vector<std::int64_t> left_from_;  // by shard: [left_from, size) has left
};

}  // namespace paceline
