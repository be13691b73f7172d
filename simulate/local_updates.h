// What a thread has of its own gradients, and what is left to do with them: the books of worker/cache/
// thread_cache.h without its numbers. Under SGD the newest gradient waits until a read needs it applied,
// slice by slice, and as many are kept as they are as leave a buffer for the next. A read that finds one more
// makes the oldest a difference. Each of the two is a pass over what it concerns.
//
//   reads that go on with what is there, SGD:   1 pass (the newest is applied), from the third on 2 (and the
//                                               oldest becomes a difference)
//   a read that takes over every slice:         none for the newest, which is applied in the same pass
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/cache/own_updates.h"
#include "common/cache/snapshot.h"
#include "common/clock.h"
#include "common/ids.h"
#include "simulate/message_sizes.h"

namespace paceline::simulate {

// Thread: one.
class LocalUpdates {
 public:
  // Own gradients that are kept as they are, at most, and one less while the next is computed: a worker's
  // buffers (worker/train/gradient_buffers.h), each of which comes back as soon as it can.
  static constexpr std::size_t kBuffersMax = 3;

  // `at_once`: the optimizer has a state, so nothing waits and differences are kept.
  explicit LocalUpdates(bool at_once) : at_once_(at_once) {}

  // The gradient stamped `stamp` is there, of a model cut into so many slices. What was left to do is done.
  void computed(Clock stamp, std::uint32_t slices) {
    own_.remember(stamp);
    if (at_once_) return;
    ++gradients_;
    waits_in_.assign(slices, true);
  }

  // A slice with this applied clock takes the place of `shard`'s, with what it lacks. Returns the passes that
  // takes: one for each own update that it lacks, the first of which copies, too.
  std::size_t take_over(ShardId shard, Clock applied) {
    if (!waits_in_.empty()) waits_in_[shard.value] = false;
    return own_.stamps().empty() ? 1 : std::max<std::size_t>(own_.to_reapply(applied).size(), 1);
  }

  // After the slices that were taken over: `now` is what is here.
  void refreshed(const cache::SnapshotStamp& now, std::uint32_t thread) {
    for (std::uint32_t k = 0; k < waits_in_.size(); ++k) {
      waits_in_[k] =
          waits_in_[k] && cache::must_reapply(own_.stamps().back(), now.applied(ShardId(k), thread));
    }
    if (std::none_of(waits_in_.begin(), waits_in_.end(), [](bool waits) { return waits; })) waits_in_.clear();
    own_.drop_contained(now, thread);  // the oldest: differences first
    gradients_ = std::min(gradients_, own_.stamps().size());
  }

  // At the end of a read: does what is left. Returns the floats gone through; null: nothing was left.
  // `slices`: of ShardSizes, or of SliceSizes.
  template <typename Sizes>
  std::optional<std::int64_t> apply_deferred(const std::vector<Sizes>& slices) {
    const bool full = gradients_ == kBuffersMax;
    if (waits_in_.empty() && !full) return std::nullopt;
    std::int64_t floats = 0;
    for (std::uint32_t k = 0; k < slices.size(); ++k) {
      if (!waits_in_.empty() && waits_in_[k]) floats += slices[k].floats;
      if (full) floats += slices[k].floats;
    }
    if (full) --gradients_;
    waits_in_.clear();
    return floats;
  }

  // Own updates that not every slice contains.
  std::int64_t kept() const { return std::ssize(own_.stamps()); }

 private:
  bool at_once_;
  cache::OwnUpdates own_;
  std::size_t gradients_ = 0;   // the newest of own_, not made differences yet
  std::vector<bool> waits_in_;  // per slice: the newest is not applied; empty: it is, in all
};

}  // namespace paceline::simulate
