#include "worker/cache/process_cache.h"

#include <algorithm>
#include <utility>

namespace paceline {

ProcessCache::ProcessCache(std::vector<Range> ranges)
    : ranges_(std::move(ranges)),
      slices_(ranges_.size()),
      stamp_(static_cast<std::uint32_t>(ranges_.size())) {}

bool ProcessCache::install(ShardId shard, std::shared_ptr<const Slice> slice) {
  PACELINE_ASSERT(shard.value < ranges_.size() && slice->range == ranges_[shard.value],
                  "a slice of shard " + to_string(shard) + " with another range");
  std::lock_guard lock(mutex_);
  if (!stamp_.install(shard, slice->stamp)) return false;
  slices_[shard.value].swap(slice);  // the old one is released outside the lock
  return true;
}

bool ProcessCache::confirm(ShardId shard, cache::SliceStamp stamp) {
  std::lock_guard lock(mutex_);
  std::shared_ptr<const Slice>& held = slices_[shard.value];
  if (held == nullptr || held->stamp.revision != stamp.revision || !stamp_.install(shard, stamp))
    return false;
  auto renamed = std::make_shared<Slice>(*held);  // shares the frames
  renamed->stamp = std::move(stamp);
  // Who copies in the old one lets go of what is lent there, and not here.
  for (SlicePiece& piece : renamed->pieces)
    piece.payload = in_own_memory(std::move(piece.payload), renamed->range);
  held = std::move(renamed);
  return true;
}

Snapshot ProcessCache::snapshot() const {
  std::lock_guard lock(mutex_);
  return slices_;
}

std::shared_ptr<const Slice> ProcessCache::slice(ShardId shard) const {
  std::lock_guard lock(mutex_);
  return slices_[shard.value];
}

cache::ProcessCacheState ProcessCache::state() const {
  std::lock_guard lock(mutex_);
  return {stamp_.version(), stamp_.revision()};
}

void ProcessCache::note_existence(Version version, Revision revision) {
  std::lock_guard lock(mutex_);
  known_ = {std::max(known_.version, version), std::max(known_.revision, revision)};
}

cache::ProcessCacheState ProcessCache::newest_known() const {
  std::lock_guard lock(mutex_);
  return {std::max(known_.version, stamp_.version()), std::max(known_.revision, stamp_.revision())};
}

}  // namespace paceline
