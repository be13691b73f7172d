#include "simulate/message_sizes.h"

#include <algorithm>

#include "common/encode/encode.h"
#include "worker/client/gradient_frames.h"

namespace paceline::simulate {
namespace {

void add(Transfer& transfer, const Encoder& encoder, std::int64_t floats, std::int64_t header_bytes) {
  ++transfer.messages;
  transfer.bytes += header_bytes + static_cast<std::int64_t>(encoder.bytes_of(floats));
}

}  // namespace

std::vector<ShardSizes> message_sizes(const ClusterSection& cluster, std::span<const Range> shards) {
  const std::int64_t frame = std::max<std::int64_t>(1, cluster.frame_bytes / std::int64_t{sizeof(float)});
  const Encoder gradient{cluster.gradient_encoding, cluster.top_k_share.value_or(1.0)};
  const Encoder parameters{cluster.parameter_encoding, 1.0};
  std::vector<ShardSizes> sizes;
  for (const Range& range : shards) {
    ShardSizes shard;
    shard.floats = range.size();
    for (std::int64_t end = range.size(); end > 0; end = frame_begin(end, frame)) {
      add(shard.gradient, gradient, end - frame_begin(end, frame), kPushHeaderBytes);
    }
    for (std::int64_t begin = 0; begin < range.size(); begin += frame) {
      add(shard.parameters, parameters, std::min(frame, range.size() - begin), kParametersHeaderBytes);
    }
    if (range.size() == 0) {  // a stage that trains nothing of the shard says so
      shard.gradient = {1, kPushHeaderBytes};
      shard.parameters = {1, kParametersHeaderBytes};
    }
    sizes.push_back(shard);
  }
  return sizes;
}

std::vector<ShardSizes> message_sizes(const ClusterSection& cluster, std::int64_t floats) {
  return message_sizes(cluster, partition(floats, cluster.shards));
}

}  // namespace paceline::simulate
