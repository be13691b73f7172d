// CompensatedApply: applying decisions with delay compensation (common/params/delay_compensation.h): what it keeps
// for that from decision to decision, and the states of workers that their local applies have changed (backups.h).
// Nothing of it can be prepared: what a gradient becomes depends on all that is applied before.
//
// Thread: one at a time (the server's loop); whatever goes over blocks has helpers.
#pragma once

#include <cstdint>
#include <utility>

#include "common/params/blocks.h"
#include "common/params/delay_compensation.h"
#include "common/params/optimizer.h"
#include "common/status.h"
#include "common/wire/messages.h"
#include "server/store/apply_pool.h"
#include "server/store/backups.h"
#include "server/store/gradient_store.h"
#include "server/store/shard_settings.h"

namespace paceline::server {

class CompensatedApply {
 public:
  // For a range of `size` floats.
  CompensatedApply(const ShardSettings& settings, std::int64_t size);

  // Makes `now`, whose blocks are of `pool`, what the decision makes of it, and what its gradients were computed with
  // gets their local applies. Gradients are whole, and all that is here; `optimizer` has no state.
  void apply(const wire::ApplyDecision& decision, const GradientStore& gradients,
             const OptimizerState& optimizer, BlockRange& now, BlockPool& pool, Backups& backups,
             ApplyPool& helpers);

  // For a checkpoint, and back: DelayCompensation::image(), restore().
  const BlockRange& image() const { return compensation_.image(); }
  [[nodiscard]] Status restore(BlockRange mean_square) {
    return compensation_.restore(std::move(mean_square));
  }

 private:
  void apply_locally(const Gradient& gradient, const OptimizerState& optimizer, double rate,
                     BlockRange& backup, ApplyPool& helpers);

  DelayCompensation compensation_;
  const bool local_updates_;
  BlockPool changed_;  // of backups that have changed: the heap, since nobody else reads them
};

}  // namespace paceline::server
