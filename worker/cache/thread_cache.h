// The thread cache: the parameters one training thread computes with (docs/SYNC.md).
//
//   parameters = for each shard's slice:  the slice as the server sent it
//                                       + the worker's own differences that the slice does not contain yet
//
// A local apply runs the server's kind of optimizer, with a state of its own that is never sent. What it
// changed is kept under the gradient's timestamp. After a refresh the own updates that the new slice does not
// contain are made again, slice by slice (read-my-writes); what every slice contains is dropped. They are
// scaled by the worker's sample share where the server averages: the server's step will contain just that
// share of this gradient.
//
// With momentum and Adam an update is kept as the difference it made, which is added again. An SGD step has
// no state and can be made anywhere: there the last gradients themselves are kept, and a slice that lacks one
// has the step made on it. With one worker that is what the server makes of the slice, bit for bit. The
// oldest becomes a difference where the next one needs its buffer (keep_difference()): most are in what a
// server sends before that, and of those none is made, nor where the vectors have copies of them.
//
// A local apply that nothing depends on is not made: an SGD gradient waits. A read that takes a slice which
// lacks it applies it there, in the same pass; slices that stay have it applied by apply_deferred().
//
// A snapshot that is waited for is copied in piece by piece (copy_in()): with the own updates that it lacks its values
// are in their place when the refresh() comes that makes them count.
//
// Here are the books alone: stamps, what lacks what, what waits, what has been copied in. The floats and what is
// computed with them are CacheVectors (common/task/cache_vectors.h), in the host's memory or elsewhere.
//
// Worked example, one parameter. At version 2 the value is 10. The worker applies G(2) and G(3) locally, each
// worth -1: value 8. A snapshot of version 3 says 7 and contains G(2), which is dropped; G(3) is made again,
// value 6.
//
// Thread: its training thread only. Own updates kept: at most threshold + 1 under versioned application;
// under asp as many as the server lets a node lack (eight) and those of the refresh_clocks iterations that go
// on with what is here.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/assert.h"
#include "common/cache/freshness.h"
#include "common/cache/own_updates.h"
#include "common/config/optimizer_section.h"
#include "common/params/partition.h"
#include "common/params/shared_floats.h"
#include "common/status.h"
#include "common/task/cache_vectors.h"
#include "worker/cache/parameter_sink.h"
#include "worker/cache/snapshot.h"

namespace paceline {

class ThreadCache final : public ParameterSink {
 public:
  // Local applies use `optimizer`'s kind and settings. `thread`: whose applied clocks of a slice are ours.
  // `vectors`: for that optimizer and as long as the ranges, without own updates; null: in the host's memory,
  // of tensors whose traits are the usual ones.
  ThreadCache(const OptimizerSection& optimizer, std::vector<Range> ranges, std::uint32_t thread,
              std::unique_ptr<CacheVectors> vectors = nullptr);

  // The whole parameter vector. Valid until the next copy_in(), refresh(), apply_locally() or apply_deferred(). Nothing
  // waits to be applied (apply_deferred()), and what has been copied in has been refreshed from. Empty where they are
  // not in the host's memory.
  std::span<const float> parameters() const {
    PACELINE_ASSERT(!waits(), "the gradient stamped " + to_string(own_.stamps().back()) + " is not applied");
    PACELINE_ASSERT(!partial_, "parameters have been copied in and are not taken over");
    return vectors_->parameters();
  }
  // What has gone wrong with the vectors. Then the parameters are worth nothing, now or ever again.
  Status status() const { return vectors_->status(); }
  // CacheVectors::take_device_overlap().
  std::chrono::nanoseconds take_device_overlap() { return vectors_->take_device_overlap(); }
  // What the slices are made of, besides own differences.
  const cache::SnapshotStamp& stamp() const { return stamp_; }
  // For cache::decide_read() and its like.
  cache::ThreadCacheState state() const { return {stamp_.version(), stamp_.revision(), taken_at_}; }

  // Puts a piece of a slice that is on its way to its place, if the slice will be newer than the one here,
  // with the own updates that it lacks. refresh() has to follow before the parameters are used again.
  // Whether it did: not a piece of a slice that is older than what is here or has been copied in, nor one after a
  // piece that is missing here.
  bool copy_in(ShardId shard, const cache::SliceStamp& stamp, const SlicePiece& piece) override;
  void let_go() override { vectors_->let_go(); }
  // Whether something has been copied in since the last refresh().
  bool has_partial() const { return partial_.has_value(); }

  // Takes over every slice of `snapshot` that is newer than the one here, as far as it has not been copied in, with
  // the own updates that it lacks; what waits still does so in the others. `now`: the worker's clock. Returns
  // how many slices were taken over.
  std::size_t refresh(const Snapshot& snapshot, Clock now);

  // Applies the own gradient stamped `clock` to the parameters, now or when it is needed, with the learning
  // rate and scale of its grant; applies first what was deferred. Timestamps grow; an iteration without a
  // gradient is left out. An SGD gradient is held, unchanged, until a refresh() says that all slices contain
  // it, or keep_difference() comes to it.
  void apply_locally(Clock clock, SharedFloats gradient, double learning_rate, double scale);

  // Whether apply_locally() applies at once: the optimizer has a state, which is to see every own gradient.
  bool applies_at_once() const { return kind_ != OptimizerKind::kSgd; }

  // Whether the newest gradient has not been applied to the parameters here, in a slice at least.
  bool waits() const { return !waits_in_.empty(); }
  // Applies it there. Nothing has been copied in.
  void apply_deferred();

  // How many own updates are kept: those in the parameters that not every slice contains. Of these the oldest
  // as differences, the others as the gradients they were.
  std::size_t kept() const { return own_.stamps().size(); }
  std::size_t differences() const { return vectors_->differences(); }
  std::size_t gradients() const { return vectors_->gradients(); }
  // Of these: those whose buffers keep_difference() frees, the oldest first.
  std::size_t gradients_held() const { return vectors_->gradients_held(); }
  // Makes the oldest gradient a difference and lets go of it. There is one, and nothing waits.
  void keep_difference();

 private:
  // A slice on its way: its first `floats` are in place.
  struct Partial {
    Revision revision = kNoRevision;
    std::int64_t floats = 0;
  };
  void take_over(std::uint32_t k, const Slice& slice);
  void take_over(std::uint32_t k, const cache::SliceStamp& stamp, const SlicePiece& piece);
  bool lacks_newest(std::uint32_t k) const;  // slice k, the newest gradient

  OptimizerKind kind_;
  std::vector<Range> ranges_;
  std::uint32_t thread_;
  std::unique_ptr<CacheVectors> vectors_;
  std::optional<std::vector<Partial>> partial_;  // per slice
  cache::SnapshotStamp stamp_;
  cache::OwnUpdates own_;       // the timestamps of what the vectors keep, by its place
  std::vector<bool> waits_in_;  // per slice: the last is not applied; empty: it is, in all
  Clock taken_at_;
};

}  // namespace paceline
