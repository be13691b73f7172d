// Policy: the one place where BSP, ASP, SSP and the others differ. A worker with clock c may begin its next
// iteration iff c - floor <= s (docs/SYNC.md, The one rule); a policy says what s and floor are, and when
// they change. It decides from what it is told: no I/O, no clock of its own, and randomness only from a seed
// in its configuration.
//
// A new policy is one file here and one line in make_policy(). What it may look at: the windows of training
// metrics (on_window: DTSSP), who completed an iteration when (on_clock: DSSP). How many gradients close a
// clock is no policy's to decide while running: it is a number of the configuration (gradients_per_clock(),
// backup.h).
#pragma once

#include <cstddef>
#include <memory>

#include "common/clock.h"
#include "common/ids.h"
#include "common/instant.h"
#include "common/status.h"
#include "common/sync/clock_table.h"
#include "common/sync/engine_config.h"
#include "common/sync/lpr.h"

namespace paceline::sync {

struct EngineState;
struct PolicyState;

// Thread: one (the engine's).
class Policy {
 public:
  virtual ~Policy() = default;

  // s, the one number of the run: what is logged and reported. What a grant carries is threshold_for().
  virtual Threshold threshold() const = 0;
  // s for the iteration that a worker may begin at `clock`, where a policy gives each its own: it may change when
  // the worker's clock moves (on_clock), and otherwise only with threshold() or stage().
  virtual Threshold threshold_for(Rank, Clock) const { return threshold(); }
  // What leads are measured from. The table is not empty.
  virtual Clock floor(const ClockTable& clocks) const { return clocks.min_clock(); }
  // A window of training metrics closed. Any threshold may be different afterwards; the engine compares
  // threshold().
  virtual void on_window(const WindowResult&) {}
  // A worker completed an iteration at `now` and stands at `clock`, in `clocks` already. The first time for a
  // worker, and the first time after its departure: it stands there as the policy begins, at clock 0 where
  // training does, or as it joins.
  virtual void on_clock(Rank, Clock, Ticks, const ClockTable&) {}
  // A worker is no longer live: it finished, left or was lost.
  virtual void on_departure(Rank) {}
  // The version advanced to `version`, and the window that ends there, if one does, is closed.
  virtual void on_version(Version, Ticks, const ClockTable&) {}
  // Which of several policies that follow each other is in force (PolicyConfig::stages). It changes in
  // on_version(), and with it any threshold.
  virtual std::size_t stage() const { return 0; }
  // For a checkpoint: puts into `state` what of it is to outlive the run's servers; nothing where all follows
  // from the configuration, or is measured anew. And back, before it is told anything. The state comes from a
  // file. Errors: kInvalidArgument, naming the field: not what a policy of this configuration can be in.
  virtual void save(PolicyState&) const {}
  virtual Status resume(const EngineState&) { return Status::ok(); }
  // A number that grows with everything the policy remembers (Engine::state_size()).
  virtual std::size_t state_size() const { return 0; }
};

// Whether a threshold that moves between `config`'s limits can be `state`'s. Errors: as Policy::resume().
Status check_threshold(const PolicyState& state, const PolicyConfig& config);

// The policy that `config` names; `config` is valid (validate()).
std::unique_ptr<Policy> make_policy(const PolicyConfig& config);

}  // namespace paceline::sync
