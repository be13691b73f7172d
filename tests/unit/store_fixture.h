// Short ways to say what the tests of the store say: a shard with a small layout, pushes and decisions.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "common/params/shard_ranges.h"
#include "server/store/shard.h"

namespace paceline::server {

// The values as a payload that owns them.
inline wire::Payload payload_of(std::vector<float> values) {
  auto owner = std::make_shared<const std::vector<float>>(std::move(values));
  return {owner, reinterpret_cast<const std::byte*>(owner->data()), owner->size() * sizeof(float)};
}

inline Layout layout_of(std::int64_t floats) {
  Layout layout;
  const auto added = layout.add("dense.weight", {floats});
  PACELINE_ASSERT(added.is_ok(), added.status().message());
  return layout;
}

// SGD with rate 1 makes applied gradients readable off the parameters.
inline ShardSettings settings_of(Cluster cluster, std::int64_t block_floats = 4,
                                 std::size_t gradients_max = 3) {
  ShardSettings settings;
  settings.optimizer.kind = OptimizerKind::kSgd;
  settings.cluster = cluster;
  settings.block_floats = block_floats;
  settings.gradients_max = gradients_max;
  return settings;
}

inline std::vector<float> values_of(const BlockRange& blocks) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < blocks.block_count(); ++i) {
    values.insert(values.end(), blocks.block(i).begin(), blocks.block(i).end());
  }
  return values;
}

// The samples go with the last piece.
inline wire::Push push_of(WorkerId worker, std::int64_t clock, std::int64_t offset = 0, bool last = true,
                          std::int64_t samples = 1) {
  wire::Push push;
  push.worker = worker;
  push.clock = Clock(clock);
  push.offset = offset;
  push.last = last;
  push.samples = last ? samples : 0;
  return push;
}

// The decision that applies `contributions` and leads to version and revision.
inline wire::ApplyDecision decision_of(std::int64_t sequence, std::vector<wire::Contribution> contributions,
                                       std::int64_t version, wire::Combine combine = wire::Combine::kEach) {
  wire::ApplyDecision decision;
  decision.sequence = sequence;
  decision.contributions = std::move(contributions);
  decision.combine = combine;
  decision.learning_rate = 1.0;
  decision.version_after = Version(version);
  decision.revision_after = Revision(100 * version);
  return decision;
}

// A shard that holds the whole vector, initialised with `value`.
inline Shard ready_shard(Cluster cluster, std::int64_t floats, float value, ShardSettings settings) {
  settings.cluster = cluster;
  Shard shard(ShardId(0), {0, floats}, layout_of(floats), std::move(settings));
  const std::vector<float> initial(static_cast<std::size_t>(floats), value);
  const Status status = shard.initialize({0, true}, initial);
  PACELINE_ASSERT(status.is_ok(), status.message());
  return shard;
}

}  // namespace paceline::server
