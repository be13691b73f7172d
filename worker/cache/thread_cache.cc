#include "worker/cache/thread_cache.h"

#include <algorithm>
#include <utility>

#include "worker/cache/host_vectors.h"

namespace paceline {
namespace {

std::unique_ptr<CacheVectors> on_host(const OptimizerSection& optimizer, const std::vector<Range>& ranges) {
  return std::make_unique<HostVectors>(optimizer, ranges.empty() ? 0 : ranges.back().end);
}

}  // namespace

ThreadCache::ThreadCache(const OptimizerSection& optimizer, std::vector<Range> ranges, std::uint32_t thread,
                         std::unique_ptr<CacheVectors> vectors)
    : kind_(optimizer.kind),
      ranges_(std::move(ranges)),
      thread_(thread),
      vectors_(vectors != nullptr ? std::move(vectors) : on_host(optimizer, ranges_)),
      stamp_(static_cast<std::uint32_t>(ranges_.size())) {}

bool ThreadCache::copy_in(ShardId shard, const cache::SliceStamp& stamp, const SlicePiece& piece) {
  const std::uint32_t k = shard.value;
  if (!cache::may_install(stamp_.slice(shard), stamp) || stamp.revision == stamp_.slice(shard).revision)
    return false;
  if (!partial_) partial_.emplace(ranges_.size());
  Partial& partial = (*partial_)[k];
  // What has been copied in of a newer one may lie nowhere else any more.
  if (stamp.revision < partial.revision) return false;
  if (piece.offset == 0) partial = {stamp.revision, 0};
  if (partial.revision != stamp.revision || partial.floats != piece.offset) return false;
  take_over(k, stamp, piece);
  partial.floats += static_cast<std::int64_t>(piece.payload.floats().size());
  return true;
}

std::size_t ThreadCache::refresh(const Snapshot& snapshot, Clock now) {
  PACELINE_ASSERT(snapshot.size() == ranges_.size(),
                  "a snapshot of " + std::to_string(snapshot.size()) + " shards");
  std::size_t taken = 0;
  for (std::uint32_t k = 0; k < ranges_.size(); ++k) {
    const Slice* const slice = snapshot[k].get();
    if (slice == nullptr) continue;
    const Revision had = stamp_.slice(ShardId(k)).revision;
    const bool newer = stamp_.install(ShardId(k), slice->stamp);
    PACELINE_ASSERT(newer || !partial_ || (*partial_)[k].revision == kNoRevision,
                    "what has been copied in is not in the snapshot that follows");
    if (!newer) continue;
    // The same revision under a newer version's name: the values are here already, own updates included.
    if (slice->stamp.revision == had) continue;
    take_over(k, *slice);
    ++taken;
  }
  for (std::uint32_t k = 0; k < waits_in_.size(); ++k) waits_in_[k] = waits_in_[k] && lacks_newest(k);
  partial_.reset();
  if (std::none_of(waits_in_.begin(), waits_in_.end(), [](bool waits) { return waits; })) waits_in_.clear();
  for (std::size_t dropped = own_.drop_contained(stamp_, thread_); dropped > 0; --dropped) {
    vectors_->drop_oldest();
  }
  taken_at_ = now;
  return taken;
}

void ThreadCache::take_over(std::uint32_t k, const Slice& slice) {
  const bool is_partial = partial_ && (*partial_)[k].revision == slice.stamp.revision;
  std::int64_t here = is_partial ? (*partial_)[k].floats : 0;
  for (const SlicePiece& piece : slice.pieces) {
    if (piece.offset < here) continue;
    take_over(k, slice.stamp, piece);
    here += std::ssize(piece.payload.floats());
  }
  PACELINE_ASSERT(here == ranges_[k].size(), "of the slice of shard " + std::to_string(k) + " there are " +
                                                 std::to_string(here) + " floats");
  if (waits()) waits_in_[k] = false;
}

void ThreadCache::take_over(std::uint32_t k, const cache::SliceStamp& stamp, const SlicePiece& piece) {
  const std::span<const float> values = piece.payload.floats();
  const std::int64_t first = ranges_[k].begin + piece.offset;
  const std::int64_t last = first + std::ssize(values);
  PACELINE_ASSERT(last <= ranges_[k].end, "a slice reaches beyond its range");
  const Clock applied = thread_ < stamp.applied.size() ? stamp.applied[thread_] : Clock(0);
  const std::vector<std::size_t> lacking = own_.to_reapply(applied);
  vectors_->take_over(first, {piece.payload.owner, values}, lacking);
}

void ThreadCache::apply_locally(Clock clock, SharedFloats gradient, double learning_rate, double scale) {
  apply_deferred();
  own_.remember(clock);
  if (applies_at_once()) return vectors_->apply_with_state(std::move(gradient), learning_rate, scale);
  vectors_->keep_gradient(std::move(gradient), learning_rate * scale);
  waits_in_.assign(ranges_.size(), true);
}

void ThreadCache::apply_deferred() {
  PACELINE_ASSERT(!partial_, "parameters have been copied in and are not taken over");
  for (std::uint32_t k = 0; k < waits_in_.size(); ++k) {
    if (waits_in_[k] && lacks_newest(k)) vectors_->apply_newest(ranges_[k]);
  }
  waits_in_.clear();
}

bool ThreadCache::lacks_newest(std::uint32_t k) const {
  return cache::must_reapply(own_.stamps().back(), stamp_.applied(ShardId(k), thread_));
}

void ThreadCache::keep_difference() {
  PACELINE_ASSERT(gradients() > 0 && !waits(), "no gradient that could become a difference");
  vectors_->make_difference();
}

}  // namespace paceline
