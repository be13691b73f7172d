// ParameterSink: where a thread that waits for parameters takes them piece by piece, so that its copy of
// them does not begin when the last has come. What has been copied in is a head start only: whether and when a slice
// counts is decided by the process cache, as for any other (thread_cache.h).
#pragma once

#include "common/cache/snapshot.h"
#include "common/ids.h"
#include "worker/cache/snapshot.h"

namespace paceline {

// Thread: the one that waits.
class ParameterSink {
 public:
  virtual ~ParameterSink() = default;
  // A piece of the answer of `shard` that bears `stamp`; the pieces of one answer come in order, without
  // gaps. Whether it is in its place now: then nobody needs to keep it for this thread.
  virtual bool copy_in(ShardId shard, const cache::SliceStamp& stamp, const SlicePiece& piece) = 0;
  // Of what has been copied in nothing is read or held any more when this returns: what a server has lent it wants
  // back.
  virtual void let_go() {}
};

}  // namespace paceline
