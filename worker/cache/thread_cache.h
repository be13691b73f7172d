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
// Worked example, one parameter. At version 2 the value is 10. The worker applies G(2) and G(3) locally:
// differences {2: -1, 3: -1}, value 8. A snapshot of version 3 says 7 and contains G(2): the difference of 2
// is dropped, that of 3 applied again, value 6.
//
// Thread: its training thread only. Memory: one parameter vector, the optimizer's state, and one vector for
// each own gradient that no snapshot taken contains (at most threshold + 1), recycled.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "common/cache/freshness.h"
#include "common/cache/own_updates.h"
#include "common/config/run_config.h"
#include "common/params/optimizer.h"
#include "worker/cache/snapshot.h"

namespace paceline {

class ThreadCache {
 public:
  // Local applies use `optimizer`'s kind and settings. `thread`: whose applied clocks of a slice are ours.
  ThreadCache(const OptimizerSection& optimizer, std::vector<Range> ranges, std::uint32_t thread);

  // The whole parameter vector. Valid until the next refresh() or apply_locally().
  std::span<const float> parameters() const { return parameters_; }
  // What the slices are made of, besides own differences.
  const cache::SnapshotStamp& stamp() const { return stamp_; }
  // For cache::decide_read() and its like.
  cache::ThreadCacheState state() const { return {stamp_.version(), stamp_.revision(), taken_at_}; }

  // Takes over every slice of `snapshot` that is newer than the one here and adds own differences again.
  // `now`: the worker's clock. Returns how many slices were copied.
  std::size_t refresh(const Snapshot& snapshot, Clock now);

  // Applies the own gradient stamped `clock` to the parameters, with the learning rate and scale of its
  // grant. Timestamps grow; an iteration without a gradient is left out.
  void apply_locally(Clock clock, std::span<const float> gradient, double learning_rate, double scale);

  // How many differences are kept: for tests of the bound.
  std::size_t differences() const { return differences_.size(); }

 private:
  OptimizerSection settings_;
  std::vector<Range> ranges_;
  std::uint32_t thread_;
  std::vector<float> parameters_;
  std::optional<OptimizerState> optimizer_;  // made by the first local apply: BSP needs none
  cache::SnapshotStamp stamp_;
  cache::OwnUpdates own_;                       // the timestamps of differences_
  std::deque<std::vector<float>> differences_;  // oldest first
  std::vector<float> spare_;                    // a dropped one, for the next
  Clock taken_at_;
};

}  // namespace paceline
