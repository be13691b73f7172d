// One shard: a contiguous range of the parameters, its optimizer state, the gradients waiting for their turn
// and the retained versions. It applies what the authority decides, in the authority's order, so that every
// shard goes through the same sequence of states (docs/SYNC.md, Versions and revisions).
//
// The parameters lie in reference-counted blocks. A reply, or a retained version, shares them; the next apply
// rewrites a shared block into a fresh one (copy-on-write), so what was handed out never changes.
//
// Worked example, combine: mean, two workers with 32 and 96 samples, sgd, lr 0.1: the decision for clock 0
// gives
//   p <- p - 0.1 * (32 g0 + 96 g1) / 128,  version 0 -> 1, revision 0 -> 2, applied clocks {1, 1}.
//
// A checkpoint is an image that shares the blocks (store/shard_image.h); a resumed run's shard begins with
// one instead of node 0's initial values.
//
// With delay compensation it keeps what its workers compute with, too (store/backups.h).
//
// Memory: the range once. It is there once more while the next state is being prepared (store/speculative_apply.h)
// or replies of one older state are leaving (store/reply_window.h). Besides: at most kRetainedMax retained
// versions (their unshared blocks), the optimizer's state, one block for the mean and for each applying
// thread, and the gradients' bound. While an image lives, range and state once more. No I/O, no clock.
// Thread: one at a time (the server's loop).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "common/params/blocks.h"
#include "common/params/layout.h"
#include "common/status.h"
#include "common/wire/messages.h"
#include "server/store/backups.h"
#include "server/store/gradient_store.h"
#include "server/store/shard_image.h"
#include "server/store/shard_settings.h"
#include "server/store/speculative_apply.h"

namespace paceline::server {

// One being evaluated and one waiting for it.
inline constexpr std::size_t kRetainedMax = 2;

// The parameters of one moment. Copying shares the blocks; it never changes.
struct Snapshot {
  Version version = kNoVersion;
  Revision revision = kNoRevision;
  BlockRange blocks;
  std::vector<Clock> applied;  // by rank: the worker's gradients stamped below are contained
};

class Shard {
 public:
  // `range` of the vector that `layout` describes.
  Shard(ShardId id, Range range, const Layout& layout, ShardSettings settings);

  ShardId id() const { return id_; }
  Range range() const { return range_; }

  // Node 0's initial values, in pieces from 0 without gaps; the shard is ready with the last.
  // Errors: kOutOfOrder a piece that is here already; kFailedPrecondition a gap, or when ready already;
  // kInvalidArgument a piece beyond the range or `last` at the wrong place.
  [[nodiscard]] Status initialize(const wire::InitialParameters& piece, std::span<const float> values);
  bool ready() const { return now_.version >= Version(0); }

  // Where nodes hold the parameters (ShardSettings::replaced): a piece of what they have come to, in place of what is
  // here, in any order, from one node or several, and once or more: a version has one state. A later version begins
  // anew, and what comes of an earlier one is dropped. True: with this one it is all here (replaced_with()). Errors:
  // kFailedPrecondition not ready, or nodes hold nothing; kInvalidArgument a piece of two vectors, or beyond the last.
  Result<bool> replace(const wire::NodeState& piece, std::span<const float> values);
  // The version whose parameters and optimizer state are here, as far as replace() goes.
  Version replaced_with() const { return replaced_with_; }
  // Floats of them that have come.
  std::int64_t initialized() const { return initialized_; }

  // What a checkpoint holds, as it stands between two decisions; once ready(). Costs a few pointers for each
  // block; may go to another thread, and never changes.
  ShardImage image();
  // In place of initialize(): goes on from what `image` holds. Its state vectors are cut into blocks of
  // ShardSettings::block_floats, as read_shard_file() was told to. Every worker's clock is taken to be the
  // version: what it has applied beyond that stays applied, and its next gradient is stamped with the
  // version. Errors, this shard is of no use then: kFailedPrecondition it has initial values, or some of
  // them, already; kInvalidArgument the image is of another range or another kind of optimizer, or of no
  // version.
  [[nodiscard]] Status restore(ShardImage image);

  // Takes a piece of a gradient. With its last piece: what the authority is to be told, and `fault` names the
  // tensor and element that is not finite: each has been checked by then. `prepare`: whether what the next
  // decision is expected to make of a whole gradient may be prepared at once, as by prepare_next(). Errors as
  // GradientStore::add, and kFailedPrecondition before ready, or, with delay compensation, where it was
  // computed with a state that this worker was not sent.
  enum class Prepare { kNothing, kWhole };
  Result<std::optional<wire::GradientArrived>> push(const wire::Push& push, wire::Payload payload,
                                                    Prepare prepare = Prepare::kNothing);
  // Errors as GradientStore::withdraw.
  Status withdraw(const wire::Withdraw& withdraw) {
    PACELINE_RETURN_IF_ERROR(gradients_.withdraw(withdraw));
    next_.forget_missing(gradients_);
    return Status::ok();
  }

  // Prepares a little of what the next decision is expected to make of what has been pushed (store/
  // speculative_apply.h); false when there is nothing to prepare. Nothing of it can be seen from outside, and it
  // need never be called; it must not be while an older state than the current one is alive in replies.
  bool prepare_next() { return ready() && next_.prepare_some(now_.blocks, now_.version, gradients_); }
  // Checks a little of what has been pushed; false when there is nothing to check. Need never be called.
  bool check_next_finite() { return gradients_.check_one_finite(); }
  // Whether one of these may have something to do.
  bool may_work_ahead() const { return next_.may_prepare() || gradients_.may_check(); }

  // Applies the authority's next decision. An error means that this shard and the authority no longer agree
  // and the run cannot go on: kOutOfOrder the sequence has a gap; kFailedPrecondition a gradient is not here,
  // or a third version is to be retained. Nothing has been changed then.
  [[nodiscard]] Status apply(const wire::ApplyDecision& decision);

  // The sequence of the decision that is applied next.
  std::int64_t next_sequence() const { return next_sequence_; }

  // A gradient that will never be applied. What is not here whole is dropped when it has come (push()).
  void discard(WorkerId worker, Clock clock) {
    gradients_.discard(worker, clock);
    next_.forget_missing(gradients_);
  }
  void drop_partial(NodeId node) {
    gradients_.drop_partial(node);
    next_.forget_missing(gradients_);
  }

  // `node`'s connection broke, and it goes on over another one: what it had sent in part, of a gradient or
  // (node 0) of the initial parameters, it sends anew from the start, and what lies in its memory is copied,
  // since it may use that again.
  void reconnected(NodeId node);

  // `node` is being sent this state, which is not an exact one: with delay compensation its worker may
  // compute with it.
  void sent(NodeId node, const Snapshot& state) {
    if (compensates()) backups_.sent(node, state.revision, state.blocks, gradients_);
  }
  // States kept for that, of all nodes: for tests.
  std::size_t backups() const { return backups_.states(); }

  // Another gradient of this worker would be refused.
  bool is_full(WorkerId worker, Clock clock) const {
    return gradients_.is_full(worker, clock, settings_.room_kept);
  }

  const Snapshot& now() const { return now_; }
  // The retained version; the newest where one was retained twice (eager). nullptr when there is none.
  const Snapshot* retained(Version version) const;
  void release(Version version);

  // The applied clocks of one node's threads.
  static std::vector<Clock> applied_of(const Snapshot& snapshot, Cluster cluster, NodeId node);

  std::size_t gradients_held() const { return gradients_.held(); }
  std::size_t retained_count() const { return retained_.size(); }
  // Blocks alive: this shard's, those prepared, the retained ones' and those of replies still leaving.
  std::size_t blocks_in_use() const { return pool_.in_use(); }
  const SpeculativeApply& next() const { return next_; }

 private:
  Status check(const wire::ApplyDecision& decision) const;
  struct Replacing {
    Version version = kNoVersion;
    std::map<std::int64_t, std::int64_t> here;  // floats of all vectors that have come: end, by begin
    std::vector<BlockRange> vectors;            // of the optimizer
  };
  bool compensates() const { return settings_.optimizer.delay_compensation.kind != CompensationKind::kNone; }

  ShardId id_;
  Range range_;
  Layout layout_;
  ShardSettings settings_;
  BlockPool pool_;
  Snapshot now_;
  std::int64_t initialized_ = 0;  // floats of the initial values received
  Replacing replacing_;
  Version replaced_with_ = kNoVersion;
  GradientStore gradients_;
  Backups backups_;  // delay compensation
  SpeculativeApply next_;
  std::vector<Snapshot> retained_;
  std::int64_t next_sequence_ = 0;
};

}  // namespace paceline::server
