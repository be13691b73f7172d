// EngineConfig: what the synchronisation core must know about a run. Filled from the configuration file by
// the daemon, by hand in the tests.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "common/status.h"
#include "common/sync/batch_balance.h"
#include "common/sync/modes.h"
#include "common/sync/policy_stage.h"

namespace paceline::sync {

// DSSP: the most that s_U - s_L may be. The controller looks through the range each time the fastest asks, in
// the thread in which everybody's grants are decided: 2 x 1000 predicted pushes are a few microseconds.
inline constexpr std::int64_t kDsspRangeMax = 1000;

// Which threshold applies, and how it moves (docs/SYNC.md, Policies).
struct PolicyConfig {
  PolicyKind kind = PolicyKind::kBsp;
  std::int64_t threshold = 3;       // ssp: s; dtssp, random_walk: initial s; not used by the others
  std::int64_t threshold_min = 3;   // dtssp, random_walk; dssp: s_L
  std::int64_t threshold_max = 10;  // dtssp, random_walk; dssp: s_U
  double increase_above = 5.0;      // dtssp: LPR above this raises s by one, per cent
  double decrease_below = -5.0;     // dtssp: LPR below this lowers s by one, per cent
  std::uint64_t seed = 1;           // random_walk: the run's
  std::int64_t backup_workers = 1;  // backup: b; 0 .. workers - 1
  std::vector<PolicyStage> stages;  // switch: two or more
};

struct EngineConfig {
  Cluster cluster;  // who may take part
  // Training begins when so many nodes have joined, whichever, with all their threads; none: when all have.
  std::optional<std::uint32_t> nodes_at_start;
  std::uint32_t shards = 1;
  PolicyConfig policy;
  ApplyMode apply = ApplyMode::kVersioned;   // of the first stage, where there are any (apply_in())
  CombineMode combine = CombineMode::kMean;  // of what is applied version by version; eager: each
  Share share = Share::kEven;
  std::int64_t total_iterations = 1;  // over all workers
  std::int64_t batch_size = 128;      // samples per iteration, or with unequal sizes on average
  BatchSizing batch_sizing = BatchSizing::kEqual;
  std::int64_t batch_step = kBatchStep;  // what unequal sizes are multiples of
  LprMetric lpr_metric = LprMetric::kAccuracy;
  std::optional<std::int64_t> window_clocks;  // W; none: 20,000 / samples per clock, rounded up
  // exchange.hidden: a worker is granted its next iteration while it is in one, as soon as the rule lets it begin
  // with its own gradient still missing (grants_ahead.cc).
  bool grants_ahead = false;
  OnNan on_nan = OnNan::kStop;
  // So many workers in a row take their iterations together, as the stages of a pipeline: a stop finds them at one
  // clock. A divisor of the workers.
  std::uint32_t group = 1;
  std::optional<double>
      skips_max;  // on_nan: skip: a larger share of skipped iterations fails; none: none does
  std::chrono::nanoseconds held_notice_after = std::chrono::milliseconds(200);  // first HeldNotice action
  std::chrono::nanoseconds held_notice_every = std::chrono::seconds(1);         // and the following ones
};

// Errors: kInvalidArgument, naming the field, for anything an Engine cannot run with: no workers, shards (or
// more than 64) or iterations, a negative threshold, threshold outside [min, max], min > max, max - min >
// kDsspRangeMax under dssp, as many backup workers as workers, backup + eager, unequal mini-batches
// without mean, with a pool, with backup workers or of a size that is no multiple of batch_step, limits that
// are not finite or decrease_below > increase_above, W < 1, grants ahead with backup workers, bsp + eager, asp +
// versioned, eager + mean from the beginning, stages of which one is not a policy of its own, does not end before
// another, or goes back from eager to versioned, groups that the workers are no multiple of, fewer nodes at the start
// than 1 or than all where nobody may come late.
Status validate(const EngineConfig& config);

// How many gradients close a clock: the workers' that are live, or under backup the first N = workers - b.
std::int64_t gradients_per_clock(const EngineConfig& config);

// Whether workers may come, or come back, while training goes on; and what a lost one leaves undone of an
// even share is done by others. Not where each clock is cut for all workers of the run: with backup workers,
// whose N is one number, and with batches by speed.
bool workers_come_and_go(const EngineConfig& config);

// So many workers in a row are brought to one clock by a stop: a group; or all where sizes follow speed, since a clock
// is then cut for all of them, and what one had not done of it nobody could take up. 1: each stops where it is.
std::uint32_t stopped_together(const EngineConfig& config);

// The LPR window W in clocks: as configured, or 20,000 samples' worth of clocks, rounded up (docs/SYNC.md).
std::int64_t window_clocks_of(const EngineConfig& config);

// The largest threshold the policy can ever grant with. It bounds memory (gradients held per worker: s + 2)
// and says whether a worker must keep its own updates at all (common/cache/own_updates.h).
Threshold largest_threshold(const PolicyConfig& policy);

// The same of all that is granted while gradients are applied in this way; none where they never are.
std::optional<Threshold> largest_threshold(const EngineConfig& config, ApplyMode apply);

}  // namespace paceline::sync
