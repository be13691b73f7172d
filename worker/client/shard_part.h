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

#include "common/clock.h"
#include "common/ids.h"
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

// A slice of a node's caches: what is asked of a shard at once. It is all that the node trains of the shard, or, where
// parameters come in fragments (exchange.fragments), what of that is of one. Caches number slices from the vector's
// begin on, and call those numbers shards; without fragments they are.
//
//   shards [0, 50) and [50, 100), fragments [0, 70) and [70, 100):
//   0   shard 0, [0, 50), fragment 1      1   shard 1, [50, 70), fragment 1      2   shard 1, [70, 100), fragment 0
struct CacheSlice {
  ShardId shard;
  std::int64_t fragment = 0;  // from the vector's end
  ShardPart part;
};

// `fragments`: of the node's vectors, in their order; none or one: whole shards.
inline std::vector<CacheSlice> cache_slices(const std::vector<ShardPart>& parts,
                                            const std::vector<Range>& fragments) {
  std::vector<CacheSlice> slices;
  for (std::uint32_t k = 0; k < parts.size(); ++k) {
    const ShardPart& part = parts[k];
    if (fragments.size() <= 1 || part.own.size() == 0) {
      slices.push_back({ShardId(k), 0, part});
      continue;
    }
    for (std::size_t f = 0; f < fragments.size(); ++f) {
      const Range own{std::max(part.own.begin, fragments[f].begin), std::min(part.own.end, fragments[f].end)};
      if (own.begin >= own.end) continue;
      slices.push_back({ShardId(k),
                        static_cast<std::int64_t>(fragments.size() - 1 - f),
                        {part.whole, own, part.in_shard + own.begin - part.own.begin}});
    }
  }
  return slices;
}

inline std::vector<Range> own_ranges(const std::vector<CacheSlice>& slices) {
  std::vector<Range> ranges;
  for (const CacheSlice& slice : slices) ranges.push_back(slice.part.own);
  return ranges;
}

// The oldest of each shard's slices.
inline std::vector<Revision> by_shard(const std::vector<CacheSlice>& slices,
                                      const std::vector<Revision>& revisions) {
  std::vector<Revision> oldest;
  for (std::size_t i = 0; i < revisions.size(); ++i) {
    if (slices[i].shard.value == oldest.size()) oldest.push_back(revisions[i]);
    oldest.back() = std::min(oldest.back(), revisions[i]);
  }
  return oldest;
}

}  // namespace paceline
