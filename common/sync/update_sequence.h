// UpdateSequence: what is applied to the parameters, in which order, and what follows from it: versions, windows
// of training metrics, the policy's changes of threshold or stage. The authority decides it for all shards; it
// is the stream of Apply actions.
//
//   versioned  gradients wait for their clock's turn, and a version is all that are stamped below it
//   eager      each is applied when its iteration is complete; the version follows the min clock
//
// A metric counts for its window when its gradient is applied (docs/SYNC.md, Policies).
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/clock.h"
#include "common/ids.h"
#include "common/sync/engine_parts.h"
#include "common/sync/engine_state.h"
#include "common/sync/iteration_range.h"
#include "common/sync/lpr.h"
#include "common/sync/modes.h"
#include "common/sync/pending_gradients.h"

namespace paceline::sync {

// Thread: one (the engine's).
class UpdateSequence {
 public:
  // `run` outlives it.
  explicit UpdateSequence(EngineParts& run);

  // For a checkpoint: what is applied. And back, after the policy, before anything is added; `state` is valid.
  void save(EngineState& state) const;
  void resume(const EngineState& state);

  Version version() const { return version_; }
  Revision revision() const { return revision_; }
  Version begins() const { return begins_; }  // that this generation began with: nobody has anything older
  Revision version_begins() const { return version_begins_; }  // the first of version()
  // Eager: that are applied, are about to be, or have no gradient; and whether more are than when version() was
  // reached.
  std::int64_t iterations() const {
    return revision_.value + skipped_ + static_cast<std::int64_t>(arrived_.contributors.size());
  }
  bool is_beyond_version() const { return iterations() > version_begins_iterations_; }
  // How gradients are applied from here on.
  ApplyMode apply_mode() const { return apply_; }
  // Iterations that closed without a gradient.
  std::int64_t skipped() const { return skipped_; }

  // The iteration that `rank` is in is complete: a gradient, or the fact that there is none.
  void add(Rank rank);
  // A worker that has nothing of the oldest open clock (backup).
  void add_late(const SkippedIteration& late) { waiting_.add_late(late); }
  // How many gradients of the oldest open clock wait.
  std::int64_t oldest_count() const { return waiting_.oldest_count(); }
  // The clock after all of which a gradient waits.
  Clock after_waiting() const { return Clock(version_.value + static_cast<std::int64_t>(waiting_.clocks())); }
  // Which iterations wait, in any order.
  IterationRanges waiting() const { return waiting_.iterations(); }

  // The version comes to `clock`, if it is below; what was added and has no turn to wait for is applied. True:
  // thresholds may be others than before.
  bool advance(Clock clock);

  // Grows with what is remembered.
  std::size_t size() const { return waiting_.clocks() + lpr_.open_windows(); }

 private:
  Contributor contribution_of(Rank rank) const;
  void advance_policy();
  void turn_eager();
  ApplyMode apply_of_stage() const;
  CombineMode combine() const;
  void apply(ClockContributions contributions);

  EngineParts& run_;
  ApplyMode apply_;             // of the stage in force
  PendingGradients waiting_;    // versioned
  ClockContributions arrived_;  // eager: decided in this step, not emitted yet
  LprTracker lpr_;
  Version begins_;
  Version version_;
  Revision revision_;
  Revision version_begins_;
  std::int64_t version_begins_iterations_ = 0;
  std::int64_t skipped_ = 0;
};

}  // namespace paceline::sync
