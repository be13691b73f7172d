// A snapshot as a node holds it: one immutable slice for each shard, kept in the very wire frames that
// brought it: no byte is copied between the socket and the thread cache that computes with it, but where that
// is on a GPU (worker/client/pulls.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/cache/snapshot.h"
#include "common/encode/payload.h"
#include "common/params/partition.h"

namespace paceline {

// A payload of a slice of `range` in memory of this process: a copy of what a server has lent
// (common/wire/sharing.h), else itself.
Payload in_own_memory(Payload payload, const Range& range);

// One frame of a slice: its floats begin at `offset` of the shard's range.
struct SlicePiece {
  std::int64_t offset = 0;
  Payload payload;

  // Copies it to its place in `flat`, the whole parameter vector, of which its shard has `range`.
  void copy_to(std::span<float> flat, const Range& range) const;
};

// What one shard sent as one answer. Immutable and shared once installed, but that a node with one training
// thread lets go of the payloads that have been copied in there (worker/client/pulls.h).
struct Slice {
  Range range;  // of the flat vector
  cache::SliceStamp stamp;
  std::vector<SlicePiece> pieces;  // in order, without gaps, whole

  // Copies the slice to its place in `flat`, the whole parameter vector. All of it must be here still.
  void copy_to(std::span<float> flat) const;
};

// One slice per shard; an empty pointer where nothing has arrived yet.
using Snapshot = std::vector<std::shared_ptr<const Slice>>;

}  // namespace paceline
