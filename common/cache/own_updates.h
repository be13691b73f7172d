// Own updates: read-my-writes (docs/SYNC.md, What a worker sees). A thread's parameters reflect all of its
// own gradients stamped < c, although the snapshot it took may not contain the newest of them yet. The local
// apply of stamp t is kept, as the difference it made or as the gradient whose step can be made anew
// (worker/cache/thread_cache.h), and with each refresh it is made again on every slice that lacks it: iff
// t >= that slice's applied clock.
//
//   own stamps kept 5 6 7; slice 0 has applied clock 7, slice 1 has 6
//     slice 0: again 7        slice 1: again 6, 7       5 is in both: dropped for good
//
// Both sides of the rule matter: one too few loses an own gradient, one too many counts it twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "common/cache/freshness.h"
#include "common/cache/snapshot.h"
#include "common/clock.h"
#include "common/ids.h"

namespace paceline::cache {

// Whether own updates need to be kept at all. Not where s is always 0: version c contains every own gradient
// stamped < c. `largest`: the largest threshold the policy can grant with (sync::largest_threshold()); a run
// whose s is 0 now but may rise must keep them.
constexpr bool keeps_own_updates(Threshold largest) { return largest > Threshold(0); }

// How many own gradients a thread may lack in what its node has and still go on with that, where something
// newer is merely due. Under versioned application they are as many as a shard may have to wait for. Under
// eager they are at least 8, since decisions may be on their way to a shard that is late. The thread keeps an
// update for each.
// `versioned`, `eager`: the largest threshold that is granted with while gradients are applied so; none where
// they never are (sync::largest_threshold()).
std::int64_t missing_max(std::optional<Threshold> versioned, std::optional<Threshold> eager);

// Whether an own gradient stamped `own` must be applied again to a slice with this applied clock.
bool must_reapply(Clock own, Clock slice_applied);

// The timestamps of the own updates that one thread keeps, oldest first. The updates themselves lie with the
// caller, in the same order. Thread: the training thread's own.
class OwnUpdates {
 public:
  // The thread has computed the gradient stamped `stamp` and keeps its update; stamps only grow. An
  // iteration without a gradient (NaN) is not remembered.
  void remember(Clock stamp);

  // The thread takes a snapshot with these stamps: forgets every timestamp that all slices contain, and
  // returns how many that were: the caller drops as many of its oldest updates.
  std::size_t drop_contained(const SnapshotStamp& snapshot, std::uint32_t thread);

  // The places (indices into stamps()) that must be applied again to `shard`'s slice of that snapshot, oldest
  // first.
  std::vector<std::size_t> to_reapply(const SnapshotStamp& snapshot, ShardId shard,
                                      std::uint32_t thread) const {
    return to_reapply(snapshot.applied(shard, thread));
  }
  // The same for a slice with this applied clock.
  std::vector<std::size_t> to_reapply(Clock slice_applied) const;

  const std::deque<Clock>& stamps() const { return stamps_; }

 private:
  std::deque<Clock> stamps_;
};

}  // namespace paceline::cache
