// One shard: a contiguous range of the parameters, its optimizer state, the gradients waiting for their turn
// and the retained versions. It applies what the authority decides, in the authority's order, so that every
// shard goes through the same sequence of states (DESIGN 3.3).
//
// The parameters lie in reference-counted blocks. A reply, or a retained version, shares them; the next apply
// rewrites a shared block into a fresh one (copy-on-write), so what was handed out never changes.
//
// Worked example, combine: mean, two workers with 32 and 96 samples, sgd, lr 0.1: the decision for clock 0
// gives
//   p <- p - 0.1 * (32 g0 + 96 g1) / 128,  version 0 -> 1, revision 0 -> 2, applied clocks {1, 1}.
//
// Memory: the range once, once more while replies of an older state are leaving (store/leaving.h sees to it
// that it is one), at most kRetainedMax retained versions (their unshared blocks), the optimizer's state, one
// block for the mean and applying thread, and the gradients' bound. No I/O, no clock. Thread: one at a time
// (the server's loop).
#pragma once

#include <cstdint>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <vector>

#include "common/config/run_config.h"
#include "common/params/blocks.h"
#include "common/params/layout.h"
#include "common/params/optimizer.h"
#include "common/status.h"
#include "common/wire/messages.h"
#include "server/store/apply_pool.h"
#include "server/store/gradient_store.h"

namespace paceline::server {

// One being evaluated and one waiting for it.
inline constexpr std::size_t kRetainedMax = 2;

// What a shard needs of the run's configuration.
struct ShardSettings {
  OptimizerSection optimizer;
  Cluster cluster;
  std::int64_t block_floats = 1;  // floats per block and per Parameters frame, >= 1
  // Held per worker: the largest threshold + 2; where each is applied on arrival at least 8, for decisions
  // that are late here.
  std::size_t gradients_max = 2;
  Encoding gradient_encoding = Encoding::kFp32;  // of pushes
  std::size_t apply_threads = 1;                 // >= 1
  // A range of up to this many floats is applied by the loop's thread alone, which takes it some 2 ms: the
  // others would have to be woken, and waited for when the cores are busy with gradients.
  std::int64_t apply_alone_floats = std::int64_t{4} << 20;
  // Where the parameters lie, so that replies can be shared with nodes of this machine; null: the heap.
  std::shared_ptr<std::pmr::memory_resource> memory{};
};
ShardSettings shard_settings(const RunConfig& config);

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

  // Takes a piece of a gradient. With its last piece: what the authority is to be told, and `fault` names the
  // tensor and element that is not finite. Errors as GradientStore::add, and kFailedPrecondition before
  // ready.
  Result<std::optional<wire::GradientArrived>> push(const wire::Push& push, wire::Payload payload);

  // Applies the authority's next decision. An error means that this shard and the authority no longer agree
  // and the run cannot go on: kOutOfOrder the sequence has a gap; kFailedPrecondition a gradient is not here,
  // or a third version is to be retained. Nothing has been changed then.
  [[nodiscard]] Status apply(const wire::ApplyDecision& decision);

  // A whole gradient that will never be applied. Unknown ones are ignored: it may never have come whole.
  void discard(WorkerId worker, Clock clock) { gradients_.discard(worker, clock); }
  void drop_partial(NodeId node) { gradients_.drop_partial(node); }

  // Another gradient of this worker would be refused.
  bool is_full(WorkerId worker) const { return gradients_.is_full(worker); }

  const Snapshot& now() const { return now_; }
  // The retained version; the newest where one was retained twice (eager). nullptr when there is none.
  const Snapshot* retained(Version version) const;
  void release(Version version);

  // The applied clocks of one node's threads.
  static std::vector<Clock> applied_of(const Snapshot& snapshot, Cluster cluster, NodeId node);

  std::size_t gradients_held() const { return gradients_.held(); }
  std::size_t retained_count() const { return retained_.size(); }
  // Blocks alive: this shard's, the retained ones' and those of replies still leaving.
  std::size_t blocks_in_use() const { return pool_.in_use(); }

 private:
  Status check(const wire::ApplyDecision& decision) const;
  void apply_gradients(const wire::ApplyDecision& decision);
  void apply_each(const wire::ApplyDecision& decision);
  void apply_mean(const wire::ApplyDecision& decision);
  std::string place_of(std::int64_t element) const;

  ShardId id_;
  Range range_;
  Layout layout_;
  ShardSettings settings_;
  BlockPool pool_;
  Snapshot now_;
  std::int64_t initialized_ = 0;  // floats of the initial values received
  OptimizerState optimizer_;
  GradientStore gradients_;
  ApplyPool apply_pool_;
  std::vector<std::vector<float>> sums_;  // per thread: one block of a clock's weighted sum
  std::vector<Snapshot> retained_;
  std::int64_t next_sequence_ = 0;
};

}  // namespace paceline::server
