// The thread cache: the parameters one training thread computes with (DESIGN sections 2 and 3.2).
//
//   parameters = for each shard's slice:  the slice as the server sent it
//                                       + the worker's own differences that the slice does not contain yet
//
// A local apply runs the server's kind of optimizer, with a state of its own that is never sent, and keeps
// the difference it made, under the gradient's timestamp. After a refresh the differences that the new slice
// does not contain are added again, slice by slice (read-my-writes); what every slice contains is dropped.
// The difference is scaled by the worker's sample share where the server averages: the server's step will
// contain just that share of this gradient.
//
// A local apply that nothing depends on is not made. Where the optimizer has no state (SGD), an own gradient
// waits, and is applied only when a read is to go on from the parameters that are here, or takes a snapshot
// that lacks the gradient. Under refresh_clocks: 1 the snapshot nearly always contains it, and three passes
// over memory are saved.
//
// A snapshot that is waited for lands piece by piece (land()): its values are in their place, overwriting the
// old ones, when the refresh() comes that makes them count.
//
// Worked example, one parameter. At version 2 the value is 10. The worker applies G(2) and G(3) locally:
// differences {2: -1, 3: -1}, value 8. A snapshot of version 3 says 7 and contains G(2): the difference of 2
// is dropped, that of 3 applied again, value 6.
//
// Thread: its training thread only. Memory: one parameter vector, the optimizer's state, and one vector for
// each own gradient that no snapshot taken contains: as many as there ever were at once, recycled. At most
// threshold + 1 under versioned application; under asp as many as the server lets a node lack (eight) and
// those of the refresh_clocks iterations that go on with what is here.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/assert.h"
#include "common/cache/freshness.h"
#include "common/cache/own_updates.h"
#include "common/config/run_config.h"
#include "common/params/optimizer.h"
#include "common/params/shared_floats.h"
#include "worker/cache/landing.h"
#include "worker/cache/snapshot.h"

namespace paceline {

class ThreadCache final : public ParameterLanding {
 public:
  // Local applies use `optimizer`'s kind and settings. `thread`: whose applied clocks of a slice are ours.
  ThreadCache(const OptimizerSection& optimizer, std::vector<Range> ranges, std::uint32_t thread);

  // The whole parameter vector. Valid until the next land(), refresh(), apply_locally() or settle(). Nothing
  // waits to be applied (settle()), and what has landed has been refreshed from.
  std::span<const float> parameters() const {
    PACELINE_ASSERT(!waiting_, "the gradient stamped " + to_string(waiting_->clock) + " is not applied");
    PACELINE_ASSERT(!landing_, "parameters have landed and are not taken over");
    return parameters_;
  }
  // What the slices are made of, besides own differences.
  const cache::SnapshotStamp& stamp() const { return stamp_; }
  // For cache::decide_read() and its like.
  cache::ThreadCacheState state() const { return {stamp_.version(), stamp_.revision(), taken_at_}; }

  // Puts a piece of a slice that is on its way to its place, if the slice will be newer than the one here. An
  // own gradient that waits and is not in it is applied to the slice's range first. refresh() has to follow
  // before the parameters are used again.
  void land(ShardId shard, const cache::SliceStamp& stamp, const SlicePiece& piece) override;

  // Takes over every slice of `snapshot` that is newer than the one here, as far as it has not landed, and
  // adds own differences again, after settle_for(). `now`: the worker's clock. Returns how many slices were
  // taken over.
  std::size_t refresh(const Snapshot& snapshot, Clock now);

  // Applies the own gradient stamped `clock` to the parameters, now or when it is needed, with the learning
  // rate and scale of its grant. Timestamps grow; an iteration without a gradient is left out. Holds the
  // gradient, unchanged, until it is applied or dropped: at the latest at the next refresh(), settle() or
  // apply_locally().
  void apply_locally(Clock clock, SharedFloats gradient, double learning_rate, double scale);

  // Whether apply_locally() applies at once: the optimizer has a state, which is to see every own gradient.
  bool applies_at_once() const { return settings_.kind != OptimizerKind::kSgd; }

  bool waits() const { return waiting_.has_value(); }
  // Applies the gradient that waits, if there is one.
  void settle();
  // Whether a gradient waits and is not in all slices of `snapshot`, or of those here that stay.
  bool lacks_waiting(const Snapshot& snapshot) const;
  // Applies what waits to those slices that will lack it once `snapshot` is taken; nothing waits then.
  void settle_for(const Snapshot& snapshot);

  // How many differences are kept: for tests of the bound.
  std::size_t differences() const { return differences_.size(); }

 private:
  // The newest own gradient, applied slice by slice, when and where it is needed.
  struct OwnGradient {
    Clock clock;
    SharedFloats values;
    double learning_rate = 0.0;
    double scale = 1.0;
    std::vector<float> difference{};  // what applying it has changed; empty before the first slice
    std::vector<bool> applied_to{};   // per slice
  };
  // A slice on its way: its first `floats` are in place.
  struct Landing {
    Revision revision = kNoRevision;
    std::int64_t floats = 0;
  };
  cache::SnapshotStamp stamp_after(const Snapshot& snapshot) const;
  void apply_waiting_to(std::size_t k);
  void remember_waiting();
  void take_over(std::uint32_t k, const Slice& slice);

  OptimizerSection settings_;
  std::vector<Range> ranges_;
  std::uint32_t thread_;
  std::vector<float> parameters_;
  std::optional<OptimizerState> optimizer_;  // made by the first local apply: BSP needs none
  std::optional<OwnGradient> waiting_;
  std::optional<std::vector<Landing>> landing_;  // per slice
  cache::SnapshotStamp stamp_;
  cache::OwnUpdates own_;                       // the timestamps of differences_
  std::deque<std::vector<float>> differences_;  // oldest first
  std::vector<std::vector<float>> spare_;       // dropped ones, for the next
  Clock taken_at_;
};

}  // namespace paceline
