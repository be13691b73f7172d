// Grant: what a coordinator lets a worker do next, as the worker sees it. Whoever decided it may sit in
// another process (wire::Grant) or in this one (sync::Grant).
#pragma once

#include <chrono>
#include <cstdint>

#include "common/batch_part.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/sync/actions.h"
#include "common/sync/modes.h"

namespace paceline::step {

// One round: what lies between two exchanges of a worker. Its work is `batch`: one mini-batch, or with local
// steps several, one behind the other.
struct Grant {
  WorkerId worker;
  Clock clock;                 // the timestamp of its contribution
  std::int64_t iteration = 0;  // its place in the run
  Threshold threshold;
  Version min_version;  // the oldest version that it may compute with: max(0, clock - threshold)
  Version version;      // the newest version and revision known to exist
  Revision revision;
  ApplyMode apply = ApplyMode::kVersioned;  // what "newer" means to its caches (common/cache/freshness.h)
  BatchPart batch{0, 1};
  double learning_rate = 0.0;        // of the local apply
  double local_scale = 1.0;          // sample share of this worker where gradients are averaged, else 1
  std::chrono::nanoseconds held{0};  // how long the threshold held this grant
};

// Of the samples of a round of `local_steps` mini-batches, those of the `local_step`-th, from 0. They are a
// multiple of local_steps.
//
//   {96, 24} in 3 local steps: {96, 8} {104, 8} {112, 8}
inline BatchPart local_batch(const BatchPart& round, std::int64_t local_steps, std::int64_t local_step) {
  const std::int64_t samples = round.samples / local_steps;
  return {round.position + local_step * samples, samples};
}
// The same in the clocks of a run without local steps: what emulated times and the like are drawn for.
inline Clock local_clock(Clock round, std::int64_t local_steps, std::int64_t local_step) {
  return Clock(round.value * local_steps + local_step);
}

// What the synchronisation core decided. `learning_rate`, `local_scale`: as its grant says them; the core
// does not know them.
inline Grant grant_of(const sync::Grant& grant, double learning_rate = 0.0, double local_scale = 1.0) {
  return {grant.worker,    grant.clock,       grant.iteration,
          grant.threshold, grant.min_version, grant.version,
          grant.revision,  grant.apply,       {grant.position, grant.samples},
          learning_rate,   local_scale,       grant.held};
}

}  // namespace paceline::step
