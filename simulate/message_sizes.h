// How many messages and bytes a gradient and an answer are: the model's layout cut into shards, the shards
// into frames, the frames encoded, each frame with its header (docs/PROTOCOL.md).
//
//   cifar_cnn_small, 545,098 floats, one shard, frames of 512 KiB = 131,072 floats, fp32:
//     gradient     4 frames of 131,072, the lowest cut once more at 1,024 floats, 1 of 20,810: 6 messages
//     parameters   5 messages                        2,180,392 payload bytes either way
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/config/run_config.h"
#include "common/ids.h"
#include "common/params/partition.h"

namespace paceline::simulate {

// One direction of one shard.
struct Transfer {
  std::int64_t messages = 0;
  std::int64_t bytes = 0;  // headers and payload
};

struct ShardSizes {
  std::int64_t floats = 0;
  Transfer gradient;
  Transfer parameters;
  // Bytes of the gradient that leave early, by fragment, in the order in which they do (exchange.fragments): all but
  // the last fragment's.
  std::vector<std::int64_t> early = {};
};

// Bytes of the header frame of one message, as the codec makes them in the middle of a run; a test compares.
inline constexpr std::int64_t kPushHeaderBytes = 22;
inline constexpr std::int64_t kParametersHeaderBytes = 18;

// A slice of a node's caches (worker/client/shard_part.h): what is pulled of a shard at once.
struct SliceSizes {
  ShardId shard;
  std::int64_t fragment = 0;
  Range range;  // of the model
  std::int64_t floats = 0;
  Transfer parameters;
};

inline std::vector<Range> ranges_of(const std::vector<SliceSizes>& slices) {
  std::vector<Range> ranges;
  for (const SliceSizes& slice : slices) ranges.push_back(slice.range);
  return ranges;
}

// By shard, of shards with these ranges. `fragments`: of the layout, in which gradients leave; none: whole.
std::vector<ShardSizes> message_sizes(const ClusterSection& cluster, std::span<const Range> shards,
                                      const std::vector<Range>& fragments = {});
// Of the slices of these shards, by their numbers.
std::vector<SliceSizes> slice_sizes(const ClusterSection& cluster, const std::vector<Range>& shards,
                                    const std::vector<Range>& fragments);
// Of a model of `floats` parameters, cut equally.
std::vector<ShardSizes> message_sizes(const ClusterSection& cluster, std::int64_t floats);

}  // namespace paceline::simulate
