// What a node knows about the parameters it holds, apart from the numbers themselves: one SliceStamp per
// shard, or for each part of it that is asked for by itself (worker/client/shard_part.h), whose number then is the
// ShardId. With it the three guarantees of docs/SYNC.md, What a worker sees, are decided from data, not from timing.
// Pure: no parameters, no I/O, no locks.
//
//   process cache of a node, two shards, threads 0 and 1:
//     slice 0: version 7, revision 30, applied [9, 7]      slice 1: version 7, revision 28, applied [8, 7]
//   version() is 7 (the smallest of the slices); thread 0's own gradient stamped 8 is in slice 0 but not in
//   slice 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"

namespace paceline::cache {

// One shard's range of a snapshot.
struct SliceStamp {
  Version version = kNoVersion;     // every live worker's gradients stamped < version are in it
  Revision revision = kNoRevision;  // number of gradients applied to it
  std::vector<Clock> applied;       // per thread of this node: own gradients stamped < applied[t] are in it
};

// Monotonic (docs/SYNC.md, What a worker sees): whether `candidate` may replace `current`: it is newer, by
// revision, or by version where the version moved without a gradient. Answers may arrive in any order; an
// older one is dropped.
bool may_install(const SliceStamp& current, const SliceStamp& candidate);

// The stamps of all slices of one cache. A value; guarded by whoever owns the parameters it speaks of.
class SnapshotStamp {
 public:
  SnapshotStamp() = default;
  explicit SnapshotStamp(std::uint32_t shards) : slices_(shards) {}

  // Replaces the stamp of `shard` if may_install() says so, and returns whether it did. The caller then
  // installs the parameters; on false it drops them.
  bool install(ShardId shard, SliceStamp candidate);

  // Of a snapshot put together from several shards: the smallest of its slices.
  Version version() const;
  Revision revision() const;

  // The smallest applied clock over the slices: own gradients stamped below it are contained everywhere.
  Clock applied_everywhere(std::uint32_t thread) const;
  // Own gradients of `thread` stamped below it are contained in `shard`'s slice; Clock(0) where nothing is
  // held.
  Clock applied(ShardId shard, std::uint32_t thread) const;

  const SliceStamp& slice(ShardId shard) const { return slices_[shard.value]; }
  std::uint32_t shards() const { return static_cast<std::uint32_t>(slices_.size()); }

 private:
  std::vector<SliceStamp> slices_;
};

}  // namespace paceline::cache
