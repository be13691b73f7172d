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
      stretch_(std::ssize(parameters_) > kCachedFloatsMax ? kStretch : 0),
      stamp_(static_cast<std::uint32_t>(ranges_.size())) {}

bool ThreadCache::land(ShardId shard, const cache::SliceStamp& stamp, const SlicePiece& piece) {
  const std::uint32_t k = shard.value;
  if (!cache::may_install(stamp_.slice(shard), stamp) || stamp.revision == stamp_.slice(shard).revision)
    return false;
  if (!landing_) landing_.emplace(ranges_.size());
  Landing& landing = (*landing_)[k];
  // What has landed of a newer one may lie nowhere else any more.
  if (stamp.revision < landing.revision) return false;
  if (piece.offset == 0) landing = {stamp.revision, 0};
  if (landing.revision != stamp.revision || landing.floats != piece.offset) return false;
  take_over(k, stamp, piece);
  landing.floats += static_cast<std::int64_t>(piece.payload.floats().size());
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
    PACELINE_ASSERT(newer || !landing_ || (*landing_)[k].revision == kNoRevision,
                    "what has landed is not in the snapshot that follows");
    if (!newer) continue;
    // The same revision under a newer version's name: the values are here already, own updates included.
    if (slice->stamp.revision == had) continue;
    take_over(k, *slice);
    ++taken;
  }
  for (std::uint32_t k = 0; k < waits_in_.size(); ++k) waits_in_[k] = waits_in_[k] && lacks_newest(k);
  landing_.reset();
  if (std::none_of(waits_in_.begin(), waits_in_.end(), [](bool waits) { return waits; })) waits_in_.clear();
  for (std::size_t dropped = own_.drop_contained(stamp_, thread_); dropped > 0; --dropped) {
    if (differences_.empty()) {
      gradients_.pop_front();
    } else {
      spare_.push_back(std::move(differences_.front()));
      differences_.pop_front();
    }
  }
  taken_at_ = now;
  return taken;
}

void ThreadCache::take_over(std::uint32_t k, const Slice& slice) {
  const bool landed = landing_ && ((*landing_)[k].revision == slice.stamp.revision ||
                                   sync::broken(sync::Mutant::kLandedKept));
  std::int64_t here = landed ? (*landing_)[k].floats : 0;
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
  for (std::int64_t begin = first; begin < last; begin += kStretch) {
    const std::span<float> out = part(parameters_, {begin, std::min(begin + kStretch, last)});
    take_over(lacking, begin, values.subspan(static_cast<std::size_t>(begin - first), out.size()), out);
  }
}

// Of one stretch.
void ThreadCache::take_over(std::span<const std::size_t> lacking, std::int64_t begin,
                            std::span<const float> in, std::span<float> out) {
  const bool past_cache = outgrow_the_cache();
  for (const std::size_t place : lacking) {
    // A step that is the last is made where it belongs; what is added to is read first.
    const bool last_step = place == lacking.back() && place >= differences_.size();
    const std::span<float> made = past_cache && !last_step ? std::span(stretch_).first(out.size()) : out;
    add_own(place, begin, in, made, past_cache && last_step ? Stores::kPastCache : Stores::kCached);
    in = made;
  }
  if (in.data() != out.data()) copy_part(out, in, std::ssize(parameters_));
}

void ThreadCache::add_own(std::size_t place, std::int64_t begin, std::span<const float> in,
                          std::span<float> out, Stores stores) {
  const bool newest = place + 1 == kept();
  const bool twice = newest && sync::broken(sync::Mutant::kDifferenceTwice);
  const bool forgotten = newest && sync::broken(sync::Mutant::kDifferenceForgotten);
  if (place >= differences_.size() && !forgotten) {
    const OwnGradient& own = gradients_[place - differences_.size()];
    apply(own, begin, in, out, stores);
    if (twice) apply(own, begin, out, out, Stores::kCached);
    return;
  }
  if (in.data() != out.data()) std::copy(in.begin(), in.end(), out.begin());
  if (forgotten) return;
  const std::span<float> difference = part(differences_[place], {begin, begin + std::ssize(out)});
  add_weighted(out, difference, twice ? 2.0F : 1.0F);
}

void ThreadCache::apply_locally(Clock clock, SharedFloats gradient, double learning_rate, double scale) {
  settle();
  if (!optimizer_) optimizer_.emplace(settings_, static_cast<std::int64_t>(parameters_.size()));
  own_.remember(clock);
  if (applies_at_once()) return apply_with_state(gradient, learning_rate, scale);
  gradients_.push_back({std::move(gradient), learning_rate * scale});
  waits_in_.assign(ranges_.size(), true);
}

void ThreadCache::settle() {
  PACELINE_ASSERT(!landing_, "parameters have landed and are not taken over");
  if (sync::broken(sync::Mutant::kWaitingForgotten)) waits_in_.clear();
  for (std::uint32_t k = 0; k < waits_in_.size(); ++k) {
    if (!waits_in_[k] || !lacks_newest(k)) continue;
    const std::span<float> parameters = part(parameters_, ranges_[k]);
    apply(gradients_.back(), ranges_[k].begin, parameters, parameters, Stores::kCached);
  }
  waits_in_.clear();
}

bool ThreadCache::lacks_newest(std::uint32_t k) const {
  return cache::must_reapply(own_.stamps().back(), stamp_.applied(ShardId(k), thread_));
}

// Without a state it is the same step wherever it is made.
void ThreadCache::apply(const OwnGradient& own, std::int64_t begin, std::span<const float> in,
                        std::span<float> out, Stores stores) {
  const auto values = own.values.floats.subspan(static_cast<std::size_t>(begin), out.size());
  optimizer_->apply_stateless(in, out, values, own.rate, stores);
}

// A step from 0 is the difference, but for weight decay, which takes its share of the parameters that are
// here.
void ThreadCache::keep_difference() {
  PACELINE_ASSERT(!gradients_.empty() && !waits(), "no gradient that could become a difference");
  std::vector<float> difference = spare_difference();
  const OwnGradient& own = gradients_.front();
  const bool from_zero = settings_.weight_decay == 0.0;
  const Stores stores = from_zero && outgrow_the_cache() ? Stores::kPastCache : Stores::kCached;
  const std::vector<float> zeros(static_cast<std::size_t>(kStretch));
  const auto floats = static_cast<std::int64_t>(parameters_.size());
  for (std::int64_t begin = 0; begin < floats; begin += kStretch) {
    const Range stretch{begin, std::min(begin + kStretch, floats)};
    const std::span<float> out = part(difference, stretch);
    const std::span<const float> in =
        from_zero ? std::span(zeros).first(out.size()) : std::span<const float>(part(parameters_, stretch));
    apply(own, begin, in, out, stores);
    if (!from_zero) subtract(out, out, in);
  }
  differences_.push_back(std::move(difference));
  gradients_.pop_front();
}

void ThreadCache::apply_with_state(const SharedFloats& own, double learning_rate, double scale) {
  std::vector<float> kept = spare_difference();
  optimizer_->begin_step(learning_rate);
  // A stretch at a time, so that what one loop leaves the next one finds in the processor's cache.
  const auto floats = static_cast<std::int64_t>(parameters_.size());
  for (std::int64_t begin = 0; begin < floats; begin += kStretch) {
    const Range stretch{begin, std::min(begin + kStretch, floats)};
    const std::span<float> parameters = part(parameters_, stretch);
    const std::span<float> difference = part(kept, stretch);
    optimizer_->apply(begin, parameters, difference,
                      own.floats.subspan(static_cast<std::size_t>(begin), parameters.size()));
    subtract(difference, difference, parameters);
    if (scale != 1.0) paceline::scale(difference, static_cast<float>(scale));
    // Added as a refresh will add it, so that both give the same bits.
    add_weighted(parameters, difference, 1.0F);
  }
  differences_.push_back(std::move(kept));
}

std::vector<float> ThreadCache::spare_difference() {
  if (spare_.empty()) spare_.emplace_back(parameters_.size());
  std::vector<float> spare = std::move(spare_.back());
  spare_.pop_back();
  return spare;
}

}  // namespace paceline
