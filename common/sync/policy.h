// Policy: the one place where BSP, ASP, SSP and DTSSP differ. A worker with clock c may begin its next
// iteration iff c - floor <= s (DESIGN 3.1); a policy says what s and floor are, and when they change. It
// decides from numbers it is given: no I/O, no time, and randomness only from a generator passed to its
// constructor.
//
// A new policy is one file here and one line in make_policy(). How the ones to come fit: DSSP gives each
// worker its own s (threshold_for), backup workers move the floor (floor), a schedule of policies moves s
// with the windows (on_window).
#pragma once

#include <memory>

#include "common/clock.h"
#include "common/ids.h"
#include "common/sync/clock_table.h"
#include "common/sync/engine_config.h"
#include "common/sync/lpr.h"

namespace paceline::sync {

// Thread: one (the engine's).
class Policy {
 public:
  virtual ~Policy() = default;

  // s, the one number of the run: what is logged, granted and reported.
  virtual Threshold threshold() const = 0;
  // s for one worker, where a policy gives each its own.
  virtual Threshold threshold_for(WorkerId) const { return threshold(); }
  // What leads are measured from. The table is not empty.
  virtual Clock floor(const ClockTable& clocks) const { return clocks.min_clock(); }
  // A window of training metrics closed. Any threshold may be different afterwards; the engine compares
  // threshold().
  virtual void on_window(const WindowResult&) {}
};

// The policy that `config` names; `config` is valid (validate()).
std::unique_ptr<Policy> make_policy(const PolicyConfig& config);

}  // namespace paceline::sync
