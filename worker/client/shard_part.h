// What of a shard a node trains: all of it, but where it is a stage of a pipeline, whose flat vectors are of its own
// parameters alone.
//
//   layout [0, 100), shards [0, 50) and [50, 100), the node trains [40, 70):
//   shard 0   whole [0, 50)     own [0, 10)    of the shard [40, 50)
//   shard 1   whole [50, 100)   own [10, 30)   of the shard [0, 20)
//
// Where a node trains nothing of a shard both are empty, and begin at 0 of the shard.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/params/partition.h"

namespace paceline {

struct ShardPart {
  Range whole;                // the shard's range, of the layout
  Range own;                  // of the node's flat vectors
  std::int64_t in_shard = 0;  // where that begins in the shard's range

  Range of_shard() const { return {in_shard, in_shard + own.size()}; }
};

// shards: of the layout (shard_ranges.h). trained: of the layout, too.
inline std::vector<ShardPart> trained_parts(const std::vector<Range>& shards, Range trained) {
  std::vector<ShardPart> parts;
  std::int64_t end = 0;  // of what is counted of the node's vectors
  for (const Range& whole : shards) {
    const std::int64_t begin = std::max(whole.begin, trained.begin);
    const std::int64_t floats = std::max<std::int64_t>(0, std::min(whole.end, trained.end) - begin);
    parts.push_back({whole, {end, end + floats}, floats == 0 ? 0 : begin - whole.begin});
    end += floats;
  }
  return parts;
}

inline std::vector<Range> own_ranges(const std::vector<ShardPart>& parts) {
  std::vector<Range> ranges;
  for (const ShardPart& part : parts) ranges.push_back(part.own);
  return ranges;
}

}  // namespace paceline
