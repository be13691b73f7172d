#include "common/cache/snapshot.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "common/assert.h"

namespace paceline::cache {

bool may_install(const SliceStamp& current, const SliceStamp& candidate) {
  return std::tie(candidate.revision, candidate.version) > std::tie(current.revision, current.version);
}

bool SnapshotStamp::install(ShardId shard, SliceStamp candidate) {
  PACELINE_ASSERT(shard.value < slices_.size(), "no slice of shard " + to_string(shard));
  SliceStamp& current = slices_[shard.value];
  if (!may_install(current, candidate)) return false;
  current = std::move(candidate);
  return true;
}

Version SnapshotStamp::version() const {
  if (slices_.empty()) return kNoVersion;
  const auto smallest = std::min_element(slices_.begin(), slices_.end(),
                                         [](const auto& a, const auto& b) { return a.version < b.version; });
  return smallest->version;
}

Revision SnapshotStamp::revision() const {
  if (slices_.empty()) return kNoRevision;
  const auto smallest = std::min_element(
      slices_.begin(), slices_.end(), [](const auto& a, const auto& b) { return a.revision < b.revision; });
  return smallest->revision;
}

Clock SnapshotStamp::applied(ShardId shard, std::uint32_t thread) const {
  PACELINE_ASSERT(shard.value < slices_.size(), "no slice of shard " + to_string(shard));
  const std::vector<Clock>& applied = slices_[shard.value].applied;
  return thread < applied.size() ? applied[thread] : Clock(0);
}

Clock SnapshotStamp::applied_everywhere(std::uint32_t thread) const {
  if (slices_.empty()) return Clock(0);
  Clock smallest = applied(ShardId(0), thread);
  for (std::uint32_t s = 1; s < shards(); ++s) smallest = std::min(smallest, applied(ShardId(s), thread));
  return smallest;
}

}  // namespace paceline::cache
