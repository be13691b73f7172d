// The process cache: the newest snapshot a node has, shared by its training threads (docs/ARCHITECTURE.md).
// The client's I/O thread installs slices as they arrive; the training threads copy out of them. It never
// goes back: a slice that cache::may_install() does not call newer is dropped, per shard (monotonic;
// docs/SYNC.md, What a worker sees).
//
// Thread: every member may be called from any thread. A snapshot taken is immutable and stays whole while it
// is held, but on a node with one training thread: there a slice lacks what has been copied in (snapshot.h),
// must not be copied any more, and is not locked here. That thread's copy_in() and confirm(), which looks at
// the same pieces, are ordered by the lock of who calls both (worker/client/pulls.h).
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "common/cache/freshness.h"
#include "worker/cache/snapshot.h"

namespace paceline {

class ProcessCache {
 public:
  // For a parameter vector cut into these ranges, one per shard. Empty: every slice has kNoVersion.
  explicit ProcessCache(std::vector<Range> ranges);

  const std::vector<Range>& ranges() const { return ranges_; }

  // Makes `slice` the shard's slice if it is newer than what is there. Returns whether it was installed.
  bool install(ShardId shard, std::shared_ptr<const Slice> slice);

  // The shard says that what we hold at `stamp.revision` is still its newest, by now of `stamp.version`: the
  // same parameters under a newer name. Returns false when the slice here is of another revision, or not
  // older.
  bool confirm(ShardId shard, cache::SliceStamp stamp);

  // The slices as they are now: a few reference counts.
  Snapshot snapshot() const;
  // The shard's slice, or nullptr.
  std::shared_ptr<const Slice> slice(ShardId shard) const;
  // For cache::decide_read() and its like.
  cache::ProcessCacheState state() const;

  // A grant named this version and revision: they exist.
  void note_existence(Version version, Revision revision);
  // The newest version and revision that a grant or an answer to this node has named.
  cache::ProcessCacheState newest_known() const;

 private:
  std::vector<Range> ranges_;
  mutable std::mutex mutex_;
  Snapshot slices_;
  cache::SnapshotStamp stamp_;
  cache::ProcessCacheState known_;
};

}  // namespace paceline
