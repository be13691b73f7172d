// Grant: what a coordinator lets a worker do next, as the worker sees it. Whoever decided it may sit in
// another process (wire::Grant) or in this one (sync::Grant).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "common/batch_part.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/loss_scale.h"
#include "common/sync/actions.h"
#include "common/sync/modes.h"

namespace paceline::step {

// One round: what lies between two exchanges of a worker. Its work is `batch`: one mini-batch, or with local
// steps several, one after the other.
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
  bool starts_over = false;          // nothing that it has of former rounds counts (common/sync/actions.h)
  LossScale loss_scale = {};         // that it goes on with; none: its own
};

// How a round is cut into mini-batches. With local steps each has `mini_batch` samples, of which a round is a multiple;
// else a round is one, and `mini_batch` is 0.
//
//   {96, 24} with mini_batch 8: {96, 8} {104, 8} {112, 8}
inline std::int64_t local_steps_of(const BatchPart& round, std::int64_t mini_batch) {
  return mini_batch == 0 ? 1 : round.samples / mini_batch;
}
inline BatchPart local_batch(const BatchPart& round, std::int64_t mini_batch, std::int64_t local_step) {
  return mini_batch == 0 ? round : BatchPart{round.position + local_step * mini_batch, mini_batch};
}
// Where a local step stands among iterations, or clocks, of which every round has `usual`: what schedules go by, and
// what emulated times and the like are drawn for. A round of more or fewer steps is spread over as many.
//
//   begin 30, usual 3:  round of 3: 30 31 32   round of 5: 30 30 31 31 32   round of 2: 30 31
inline std::int64_t local_place(std::int64_t begin, std::int64_t usual, std::int64_t local_step,
                                std::int64_t steps) {
  return begin + local_step * usual / steps;
}

// After how many of a round's local steps the `n`-th fragment leaves, from 0 (exchange.fragments): the last one at the
// round's end.
//
//   three fragments, 10 local steps: 3, 6, 10
inline std::int64_t fragment_place(std::int64_t n, std::int64_t fragments, std::int64_t steps) {
  return (n + 1) * steps / fragments;
}
// After how many the n-th is pulled: the first at the round's begin, and the last early enough to come within it.
//
//   three fragments, 10 local steps: 0, 2, 5
inline std::int64_t fragment_pull_place(std::int64_t n, std::int64_t fragments, std::int64_t steps) {
  return n * steps / (fragments + 1);
}

// Whether a round whose mini-batches have taken `taken`, the last of them `last`, ends by its time (train.local_time):
// another one like that would not fit.
//
//   time 100 ms, 30 ms each:  after 30 and 60 it goes on, after 90 it ends
inline bool time_is_up(std::optional<std::chrono::nanoseconds> time, std::chrono::nanoseconds taken,
                       std::chrono::nanoseconds last) {
  return time && taken + last > *time;
}

// What the synchronisation core decided. `learning_rate`, `local_scale`: as its grant says them; the core
// does not know them.
inline Grant grant_of(const sync::Grant& grant, double learning_rate = 0.0, double local_scale = 1.0) {
  return {grant.worker,     grant.clock,       grant.iteration,
          grant.threshold,  grant.min_version, grant.version,
          grant.revision,   grant.apply,       {grant.position, grant.samples},
          learning_rate,    local_scale,       grant.held,
          grant.starts_over};
}

}  // namespace paceline::step
