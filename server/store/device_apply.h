// Applying decisions on a device (shard_device.h), the counterpart of speculative_apply.h's on the processor. The
// parameters that replies and snapshots share are blocks of the host as ever; the device has them, the
// optimizer's state and the gradients once more, and each decision brings the new ones down, block by block,
// into blocks that nobody reads.
//
// A gradient is sent while it arrives: each piece goes to a place of the device when the loop has time, and
// is there when a decision takes the gradient, which then has only to step and to fetch. What is there of a
// gradient is one interval that ends where the range does, as what has arrived is. Nobody sees it: a gradient
// that is lost, withdrawn or discarded leaves its place, and that is all. Where there are more gradients than
// places, those of older clocks, which are decided first, have them; what a decision takes and has no place
// goes through place 0, with the decision.
//
//   three blocks; worker 0's gradient is there, worker 1's to two thirds; decided {0, 1}, each:
//     steps 0: all at once
//     steps 1: block 2, and it is fetched; block 1 likewise; block 0 is sent, stepped and fetched
//
// With `each` the parameters come down once, behind the last gradient. The last gradient of a mean is one
// pass with the step. The bits are those of the processor: each element sees the same operations in the same
// order (docs/SYNC.md, What is reproducible).
//
// What fails on the device stays (status()): the parameters on the host may then be half the old ones and
// half the new ones, and nobody is to be answered with them.
//
// Memory, of the host: what the blocks of `now` take, and of `pool` those that somebody else holds once more;
// the optimizer's state for images alone. Thread: one at a time (the server's loop), which made it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/params/blocks.h"
#include "common/params/optimizer.h"
#include "common/params/staleness.h"
#include "common/status.h"
#include "common/wire/messages.h"
#include "server/store/gradient_store.h"
#include "server/store/shard_device.h"
#include "server/store/shard_settings.h"

namespace paceline::server {

class DeviceApply {
 public:
  // For a range of `size` floats whose blocks are of `pool`, on settings.device, with its optimizer, which
  // compensates for no delay. What fails is in status().
  DeviceApply(const ShardSettings& settings, std::int64_t size, const BlockPool& pool);

  // What has failed, for good: kUnavailable, or kResourceExhausted. Nothing else is done then.
  const Status& status() const { return status_; }

  // The optimizer's state goes on from `image`, cut into blocks as `pool`'s. Before begin(). Errors:
  // kInvalidArgument an image of another kind of optimizer, or of another size.
  [[nodiscard]] Status restore(OptimizerImage image);
  // The device has the parameters `now` from here on, which decisions change.
  void begin(const BlockRange& now);

  // A piece of a gradient has come.
  void arrived(const wire::Push& push);
  // Whether there may be something to send.
  bool may_send() const { return may_send_ && status_.is_ok(); }
  // Sends a block's worth of one gradient; false when there is none that can be sent. Where the device does
  // not read such memory by itself it takes some 0.1 ms, else less.
  bool send_some(const GradientStore& gradients);
  // Sends the rest of this gradient, if it has a place or finds one.
  void send_whole(const Gradient& whole);
  // Some gradients have been forgotten. Waits for what is being sent of them.
  void forget_missing(const GradientStore& gradients);
  // Waits until no gradient's memory is being read.
  void settle();

  // Makes `now` what the decision makes of it; its gradients are whole, and here. Waits for it.
  void apply(const wire::ApplyDecision& decision, const GradientStore& gradients, BlockRange& now);

  // The optimizer's state, fetched into blocks that are nobody else's. Errors: those of the device, which
  // stay.
  Result<OptimizerImage> image();

  // Of the blocks sent ahead since the start, those that a decision took and those that were sent in vain.
  std::int64_t committed() const { return committed_; }
  std::int64_t dropped() const { return dropped_; }

 private:
  // A gradient that is here, in part or whole.
  struct Begun {
    WorkerId worker;
    Clock clock;
    std::optional<std::size_t> place{};
    std::int64_t sent_begin = 0;  // [sent_begin, size) of it has been sent there
  };
  // A gradient of a decision, on its way.
  struct Taking {
    const Gradient* gradient;
    std::size_t place;
    std::int64_t sent_begin;  // as Begun's, when the decision came
  };
  enum class Cut { kIntoBlocks, kNotAtAll };  // kNotAtAll: into blocks where it has yet to be sent

  Status send(const Gradient& gradient, std::size_t place, Range part);
  bool find_place(Begun& begun);
  void leave_place(Begun& begun);
  std::int64_t blocks_from(std::int64_t begin) const;
  std::vector<Begun>::iterator find(WorkerId worker, Clock clock);
  Result<Taking> take(const wire::Contribution& c, const GradientStore& gradients);
  template <typename Use>
  Status each_stretch(const Taking& taking, Cut cut, const Use& use);
  Status fetch(std::int64_t i, BlockRange& now, std::vector<BlockRef>& fresh);
  Status put_in(const wire::ApplyDecision& decision, const GradientStore& gradients, BlockRange& now,
                std::vector<BlockRef>& fresh);
  Status load_all(DeviceVector vector, const BlockRange& blocks);
  Status fetch_all(DeviceVector vector, BlockRange& blocks);
  Range elements(std::int64_t i) const;
  std::int64_t block_count() const { return blocks_from(0); }
  bool has(DeviceVector vector) const;
  void keep(Status status);

  const OptimizerSection optimizer_;
  const std::int64_t size_;
  BlockPool pool_;
  BlockPool state_pool_;  // of images
  std::unique_ptr<ShardDevice> device_;
  Status status_;
  std::int64_t steps_ = 0;                  // as OptimizerState's
  std::optional<OptimizerImage> restored_;  // until begin()
  std::vector<Begun> begun_;                // as they began to arrive
  std::vector<bool> taken_;                 // by place, of those for gradients: all but the first
  bool may_send_ = false;
  std::int64_t committed_ = 0;
  std::int64_t dropped_ = 0;
};

}  // namespace paceline::server
