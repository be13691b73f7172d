#include "simulate/message_sizes.h"

#include <algorithm>

#include "common/encode/encode.h"
#include "worker/client/gradient_frames.h"
#include "worker/client/shard_part.h"

namespace paceline::simulate {
namespace {

void add(Transfer& transfer, const Encoder& encoder, std::int64_t floats, std::int64_t header_bytes) {
  ++transfer.messages;
  transfer.bytes += header_bytes + static_cast<std::int64_t>(encoder.bytes_of(floats));
}

std::int64_t frame_of(const ClusterSection& cluster) {
  return std::max<std::int64_t>(1, cluster.frame_bytes / std::int64_t{sizeof(float)});
}

// Floats [begin, end) of a shard: of each of its blocks what of that is in it.
Transfer answer(Range part, std::int64_t block, const Encoder& encoder) {
  if (part.size() == 0) return {1, kParametersHeaderBytes};
  Transfer transfer;
  for (std::int64_t begin = part.begin; begin < part.end;) {
    const std::int64_t end = std::min(part.end, (begin / block + 1) * block);
    add(transfer, encoder, end - begin, kParametersHeaderBytes);
    begin = end;
  }
  return transfer;
}

}  // namespace

std::vector<SliceSizes> slice_sizes(const ClusterSection& cluster, const std::vector<Range>& shards,
                                    const std::vector<Range>& fragments) {
  const Encoder parameters{cluster.parameter_encoding, 1.0};
  const Range all{0, shards.back().end};
  std::vector<SliceSizes> sizes;
  for (const CacheSlice& slice : cache_slices(trained_parts(shards, all), fragments)) {
    sizes.push_back({slice.shard, slice.fragment, slice.part.own, slice.part.own.size(),
                     answer(slice.part.of_shard(), frame_of(cluster), parameters)});
  }
  return sizes;
}

std::vector<ShardSizes> message_sizes(const ClusterSection& cluster, std::span<const Range> shards,
                                      const std::vector<Range>& fragments) {
  const std::int64_t frame = frame_of(cluster);
  const Encoder gradient{cluster.gradient_encoding, cluster.top_k_share.value_or(1.0)};
  const Encoder parameters{cluster.parameter_encoding, 1.0};
  std::vector<ShardSizes> sizes;
  for (const Range& range : shards) {
    ShardSizes shard;
    shard.floats = range.size();
    const std::vector<std::int64_t> borders = borders_in(range, fragments, frame);
    shard.early.resize(fragments.empty() ? 0 : fragments.size() - 1);
    for (std::int64_t end = range.size(); end > 0;) {
      const std::int64_t begin = frame_begin(end, frame, borders);
      const std::int64_t before = shard.gradient.bytes;
      add(shard.gradient, gradient, end - begin, kPushHeaderBytes);
      // With the first fragment that reaches down to it; what lies in the tail with the last.
      for (std::size_t n = 0; begin > 0 && n < shard.early.size(); ++n) {
        if (fragments[fragments.size() - 1 - n].begin > range.begin + begin) continue;
        shard.early[n] += shard.gradient.bytes - before;
        break;
      }
      end = begin;
    }
    if (range.size() == 0)
      shard.gradient = {1, kPushHeaderBytes};  // a stage that trains nothing of it says so
    shard.parameters = answer({0, range.size()}, frame, parameters);
    sizes.push_back(shard);
  }
  return sizes;
}

std::vector<ShardSizes> message_sizes(const ClusterSection& cluster, std::int64_t floats) {
  return message_sizes(cluster, partition(floats, cluster.shards));
}

}  // namespace paceline::simulate
