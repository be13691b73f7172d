// A worker's round: what it computes between a grant and its push, one mini-batch or several local steps
// (common/step/worker_step.h), and the metric of them together.
#pragma once

#include <cstdint>

#include "common/cache/freshness.h"
#include "common/instant.h"
#include "common/step/grant.h"
#include "common/sync/actions.h"
#include "simulate/computation.h"

namespace paceline::simulate {

// Thread: one.
class Round {
 public:
  explicit Round(const TrainSection& train) : train_(train) {}

  // The worker gets the mini-batch of this local step, of a round granted at `granted_at`.
  void begin_step(std::int64_t local_step, Ticks granted_at, Ticks now);
  // It begins to compute it, with these parameters. Valid until the next call.
  const Computation::Step& compute(const sync::Grant& grant, Rank worker,
                                   const cache::ThreadCacheState& parameters, std::int64_t local_step,
                                   Ticks now);
  // The gradient is there.
  struct Ended {
    bool finite = true;  // the loss is
    bool late = false;   // the round's time is up: no local step follows
    bool last = false;   // of the round
  };
  Ended end_step(Computation& computation, Ticks now);

  Ticks compute_began() const { return step_.begins; }
  // Of all local steps so far: their metric, and what of the last was not finite.
  const Computation::Computed& computed() const { return computed_; }
  // Gradients that have been computed, of all rounds.
  std::int64_t steps() const { return steps_; }

 private:
  const TrainSection& train_;
  Ticks began_;  // with the first local step
  Ticks step_began_;
  Computation::Step step_;
  Computation::Computed computed_;
  std::int64_t steps_ = 0;
};

}  // namespace paceline::simulate
