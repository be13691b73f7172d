#include "worker/cache/thread_cache.h"

#include <algorithm>
#include <utility>

#include "common/params/vector_ops.h"
#include "common/sync/test_hooks.h"

namespace paceline {
namespace {

// Floats: three arrays of this many lie in a core's own cache.
constexpr std::int64_t kStretch = 8192;

std::size_t floats_of(const std::vector<Range>& ranges) {
  return ranges.empty() ? 0 : static_cast<std::size_t>(ranges.back().end);
}

std::span<float> part(std::vector<float>& flat, const Range& range) {
  return std::span(flat).subspan(static_cast<std::size_t>(range.begin),
                                 static_cast<std::size_t>(range.size()));
}

}  // namespace

ThreadCache::ThreadCache(const OptimizerSection& optimizer, std::vector<Range> ranges, std::uint32_t thread)
    : settings_(optimizer),
      ranges_(std::move(ranges)),
      thread_(thread),
      parameters_(floats_of(ranges_)),
      stamp_(static_cast<std::uint32_t>(ranges_.size())) {}

void ThreadCache::land(ShardId shard, const cache::SliceStamp& stamp, const SlicePiece& piece) {
  const std::uint32_t k = shard.value;
  if (!cache::may_install(stamp_.slice(shard), stamp) || stamp.revision == stamp_.slice(shard).revision)
    return;
  if (!landing_) landing_.emplace(ranges_.size());
  Landing& landing = (*landing_)[k];
  if (piece.offset == 0) {
    if (waiting_ && cache::must_reapply(waiting_->clock, stamp.applied[thread_])) apply_waiting_to(k);
    landing = {stamp.revision, 0};
  }
  if (landing.revision != stamp.revision || landing.floats != piece.offset) return;
  piece.copy_to(parameters_, ranges_[k]);
  landing.floats += static_cast<std::int64_t>(piece.payload.floats().size());
}

std::size_t ThreadCache::refresh(const Snapshot& snapshot, Clock now) {
  PACELINE_ASSERT(snapshot.size() == ranges_.size(),
                  "a snapshot of " + std::to_string(snapshot.size()) + " shards");
  settle_for(snapshot);
  std::size_t taken = 0;
  for (std::uint32_t k = 0; k < ranges_.size(); ++k) {
    const Slice* const slice = snapshot[k].get();
    if (slice == nullptr) continue;
    const Revision had = stamp_.slice(ShardId(k)).revision;
    const bool newer = stamp_.install(ShardId(k), slice->stamp);
    PACELINE_ASSERT(newer || !landing_ || (*landing_)[k].revision == kNoRevision,
                    "what has landed is not in the snapshot that follows");
    if (!newer) continue;
    // The same revision under a newer version's name: the values are here already, own differences included.
    if (slice->stamp.revision == had) continue;
    take_over(k, *slice);
    ++taken;
  }
  landing_.reset();
  for (std::size_t dropped = own_.drop_contained(stamp_, thread_); dropped > 0; --dropped) {
    spare_.push_back(std::move(differences_.front()));
    differences_.pop_front();
  }
  taken_at_ = now;
  return taken;
}

void ThreadCache::take_over(std::uint32_t k, const Slice& slice) {
  const bool landed = landing_ && ((*landing_)[k].revision == slice.stamp.revision ||
                                   sync::broken(sync::Mutant::kLandedKept));
  slice.copy_to(parameters_, landed ? (*landing_)[k].floats : 0);
  for (const std::size_t place : own_.to_reapply(stamp_, ShardId(k), thread_)) {
    const bool newest = place + 1 == differences_.size();
    if (newest && sync::broken(sync::Mutant::kDifferenceForgotten)) continue;
    const float times = newest && sync::broken(sync::Mutant::kDifferenceTwice) ? 2.0F : 1.0F;
    add_weighted(part(parameters_, ranges_[k]), part(differences_[place], ranges_[k]), times);
  }
}

void ThreadCache::apply_locally(Clock clock, SharedFloats gradient, double learning_rate, double scale) {
  settle();
  waiting_ = OwnGradient{clock, std::move(gradient), learning_rate, scale};
  waiting_->applied_to.assign(ranges_.size(), false);
  if (!optimizer_) optimizer_.emplace(settings_, static_cast<std::int64_t>(parameters_.size()));
  optimizer_->begin_step(learning_rate);
  if (applies_at_once()) settle();
}

void ThreadCache::settle() {
  if (!waiting_) return;
  for (std::size_t k = 0; k < ranges_.size(); ++k) apply_waiting_to(k);
  remember_waiting();
}

bool ThreadCache::lacks_waiting(const Snapshot& snapshot) const {
  return waiting_ && cache::must_reapply(waiting_->clock, stamp_after(snapshot).applied_everywhere(thread_));
}

void ThreadCache::settle_for(const Snapshot& snapshot) {
  if (!waiting_) return;
  if (sync::broken(sync::Mutant::kWaitingForgotten)) return waiting_.reset();
  const cache::SnapshotStamp after = stamp_after(snapshot);
  for (std::uint32_t k = 0; k < ranges_.size(); ++k) {
    if (cache::must_reapply(waiting_->clock, after.applied(ShardId(k), thread_))) apply_waiting_to(k);
  }
  remember_waiting();
}

cache::SnapshotStamp ThreadCache::stamp_after(const Snapshot& snapshot) const {
  cache::SnapshotStamp after = stamp_;
  for (std::uint32_t k = 0; k < ranges_.size(); ++k) {
    if (snapshot[k] != nullptr) after.install(ShardId(k), snapshot[k]->stamp);
  }
  return after;
}

void ThreadCache::apply_waiting_to(std::size_t k) {
  OwnGradient& own = *waiting_;
  if (own.applied_to[k]) return;
  own.applied_to[k] = true;
  if (own.difference.empty()) {
    if (spare_.empty()) spare_.emplace_back(parameters_.size());
    own.difference = std::move(spare_.back());
    spare_.pop_back();
  }
  // A stretch at a time, so that what one loop leaves the next one finds in the processor's cache.
  for (std::int64_t begin = ranges_[k].begin; begin < ranges_[k].end; begin += kStretch) {
    const Range stretch{begin, std::min(begin + kStretch, ranges_[k].end)};
    const std::span<float> parameters = part(parameters_, stretch);
    const std::span<float> difference = part(own.difference, stretch);
    const auto gradient = own.values.floats.subspan(static_cast<std::size_t>(begin), parameters.size());
    optimizer_->apply(begin, parameters, difference, gradient);
    subtract(difference, difference, parameters);
    if (own.scale != 1.0) paceline::scale(difference, static_cast<float>(own.scale));
    // Added as a refresh will add it, so that both give the same bits.
    add_weighted(parameters, difference, 1.0F);
  }
}

// Where a slice contained the gradient already, its difference is whatever it was: it is never added there.
void ThreadCache::remember_waiting() {
  if (std::find(waiting_->applied_to.begin(), waiting_->applied_to.end(), true) !=
      waiting_->applied_to.end()) {
    own_.remember(waiting_->clock);
    differences_.push_back(std::move(waiting_->difference));
  }
  waiting_.reset();
}

}  // namespace paceline
