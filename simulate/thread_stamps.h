// A simulated worker's thread cache without its numbers: which parameters it computes with, and what of its
// own gradients is in them or is still to be added (local_updates.h).
#pragma once

#include <cstdint>

#include "common/cache/freshness.h"
#include "common/cache/snapshot.h"
#include "simulate/local_updates.h"

namespace paceline::simulate {

// Thread: one.
class ThreadStamps {
 public:
  // Empty. `at_once`: as LocalUpdates has it.
  ThreadStamps(std::uint32_t slices, bool at_once) : taken_(slices), own_(at_once) {}

  cache::ThreadCacheState state() const { return state_; }
  const cache::SnapshotStamp& taken() const { return taken_; }
  LocalUpdates& own() { return own_; }

  // Whether the process cache has a slice that is newer.
  bool is_behind(const cache::SnapshotStamp& process) const {
    for (std::uint32_t k = 0; k < process.shards(); ++k) {
      if (process.slice(ShardId(k)).revision > taken_.slice(ShardId(k)).revision) return true;
    }
    return false;
  }

  // Whether what is read next has been copied to its place as it came: to take it over is no pass then.
  void set_copied_in(bool copied_in) { copied_in_ = copied_in; }

  // Takes over the slices that are newer, for the read at `clock` of the node's `thread`, and adds own
  // updates again. Returns the floats gone through; `floats_of(slice)`: how many a slice has.
  template <typename FloatsOf>
  double refresh(const cache::SnapshotStamp& process, std::uint32_t thread, Clock clock,
                 const FloatsOf& floats_of) {
    double floats = 0.0;
    for (std::uint32_t k = 0; k < process.shards(); ++k) {
      const ShardId shard(k);
      const Revision had = taken_.slice(shard).revision;
      if (!taken_.install(shard, process.slice(shard)) || taken_.slice(shard).revision == had) continue;
      const std::size_t passes = own_.take_over(shard, taken_.applied(shard, thread));
      if (copied_in_) continue;
      floats += static_cast<double>(passes) * static_cast<double>(floats_of(k));
    }
    own_.refreshed(taken_, thread);
    state_ = {taken_.version(), taken_.revision(), clock};
    return floats;
  }

 private:
  cache::ThreadCacheState state_;
  cache::SnapshotStamp taken_;
  LocalUpdates own_;
  bool copied_in_ = false;
};

}  // namespace paceline::simulate
