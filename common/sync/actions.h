// Actions: everything the synchronisation core can decide. They are carried out in the order in which they
// are emitted; Apply and Discard go to every shard in that order, the same to all.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "common/status.h"
#include "common/sync/modes.h"

namespace paceline::sync {

// All workers have joined: training begins. Grants follow.
struct Started {};

// One gradient, whole on every shard.
//
// Its staleness is the number of updates between the parameters that it was computed with and its
// application. In these parameters are the updates of the snapshot and, on top of it, the worker's own
// (read-my-writes).
//   combine: each   an update is one gradient applied
//   combine: mean   an update is one clock, so these are the versions between, at most s. Own gradients are
//                   in a clock's mean as shares, and are not counted apart
// Of a snapshot whose slices differ, the oldest counts. Never negative.
//
//   eager, revision 7: a gradient computed with revision 3 and one own update is applied: 7 - (3 + 1) = 3
//   versioned, each, revision 8: two gradients computed with revision 8 are applied in worker order: 0, 1
struct Contributor {
  WorkerId worker;
  Clock clock;              // its timestamp
  std::int64_t weight = 0;  // samples
  // Of the parameters it was computed with, as its worker reported it; none where it was lost before it
  // could.
  Version computed_version = kNoVersion;
  Revision computed_revision = kNoRevision;
  // How many updates were in them, its own included. Where it was lost: the fewest there can have been.
  std::int64_t updates_known = 0;
  std::int64_t staleness = 0;  // once it is decided
  Version version_known{};     // combine: mean, in place of updates_known
  auto operator<=>(const Contributor&) const = default;
};

// A timestamp that closes without a gradient of this worker: NaN under on_nan: skip, or it was late (backup).
struct SkippedIteration {
  WorkerId worker;
  Clock clock;
  auto operator<=>(const SkippedIteration&) const = default;
};

// What every shard applies next. The stream of Apply actions is all a shard follows: after one, each
// contributor's and each skipped worker's applied clock is its timestamp + 1, the shard's version is
// version_after, its revision revision_after. Both lists may be empty: the version then moves because a
// worker left.
struct Apply {
  std::vector<Contributor> contributors;  // in the order of application
  std::vector<SkippedIteration> skipped;
  CombineMode combine = CombineMode::kEach;
  Version version_after;
  Revision revision_after;  // grows by contributors.size()
  ApplyMode apply = ApplyMode::kVersioned;
  std::size_t stage = 0;  // of PolicyConfig::stages, in force when it is decided
};

// `worker` may begin the iteration stamped `clock`.
struct Grant {
  WorkerId worker;
  Clock clock;
  std::int64_t iteration = 0;  // its place in the run (common/sync/work_share.h)
  Threshold threshold;         // s of this grant
  Clock min_clock;             // clock - min_clock <= s
  Version min_version;  // the oldest version it may compute with: max(0, clock - s), or the last of a stop
  Version version;      // the newest version and revision decided
  Revision revision;
  std::int64_t contributors = 1;     // gradients stamped `clock` there will be unless somebody goes or comes
  std::chrono::nanoseconds held{0};  // how long the threshold held it (phase BARRIER)
  std::int64_t position = 0;         // its mini-batch: samples of the run from here on (batch_plan.h)
  std::int64_t samples = 0;
  std::int64_t clock_samples = 0;           // of the contributors together, unless somebody goes or comes
  std::int64_t staleness = 0;               // of its last gradient that was decided
  ApplyMode apply = ApplyMode::kVersioned;  // of its gradient, unless another policy takes over before
  std::size_t stage = 0;                    // as in Apply
  // Of a worker that was lost, or not there, when what the run goes on from was saved; or in a run that begins, or that
  // comes late: each, until it has completed one. Nothing that its process had kept ahead of the first of them, or one
  // before had, counts.
  bool starts_over = false;
};

// `worker` has waited for its grant for held_notice_after, or for another held_notice_every since the last
// notice.
struct HeldNotice {
  WorkerId worker;
  Clock clock;         // of the iteration it wants to begin
  Staleness lead;      // clock - min clock
  WorkerId waits_for;  // the slowest; the first of them in worker order
  Threshold threshold;
  std::chrono::nanoseconds held{0};  // so far
};

// All gradients stamped < version that count are decided. For curves, evaluation and checkpoints; the
// Apply that leads there comes before it.
struct VersionAdvanced {
  Version version;
};

struct ThresholdChanged {
  Threshold from;
  Threshold to;
  double lpr = 0.0;  // per cent
  Version version;
};

// policy: switch: another policy has taken over. Grants from here on are its own. Where it applies on arrival
// and the one before did not, what waited for its clock's turn is applied right after this, each by itself.
struct PolicySwitched {
  PolicyKind from;
  PolicyKind to;
  Threshold threshold_from;
  Threshold threshold_to;
  Version version;
};

// The metrics of the iterations stamped [kW, (k+1)W) are complete.
struct WindowClosed {
  std::int64_t index = 0;  // k
  Version version;         // (k+1)W
  double loss_mean = 0.0;
  std::optional<double> accuracy;  // 0..1; none where nobody has counted
  std::int64_t samples = 0;
  std::optional<double> lpr;  // per cent; none for the first
  Threshold threshold;        // from here on, whether the window or a switch at this version has changed it
};

// Every shard drops what it holds of this gradient, in part or whole, and what of it still comes. Either its
// worker was lost before the gradient was whole everywhere, or the gradient is not finite, or it is late
// (backup). Of a late one a shard still says when it has come whole, since only then its worker goes on.
struct Discard {
  WorkerId worker;
  Clock clock;
};

// `worker` has no further iteration to do; it has left the clock table.
struct FinishWorker {
  WorkerId worker;
  std::string reason;                // "share done", or the reason of the stop
  std::chrono::nanoseconds held{0};  // how long the threshold had held the grant that does not come
};

// The run has failed (NaN under on_nan: stop). Everybody is told to finish, as after StopRequested.
struct RunFailed {
  Status status;  // names worker, clock and tensor
};

enum class EndReason {
  kComplete,    // at least one worker did its share to the end
  kStopped,     // StopRequested
  kFailed,      // RunFailed
  kNobodyLeft,  // every worker was lost or left before its share was done
};

// Nobody is live and everything held is applied. The last action of a run.
struct AllFinished {
  EndReason reason = EndReason::kComplete;
  Version version;
  Revision revision;
};

// As QuiesceRequested asked: every live worker is held, at one clock where gradients are versioned, and every
// gradient is applied.
struct Quiesced {
  Version version;
  Revision revision;
};

// The event was wrong; nothing changed.
struct Reject {
  std::optional<WorkerId> worker;  // whose message it was, where the event names one
  Status status;                   // kInvalidArgument, kOutOfOrder, kFailedPrecondition
};

using Action =
    std::variant<Started, Apply, Grant, HeldNotice, VersionAdvanced, ThresholdChanged, PolicySwitched,
                 WindowClosed, Discard, FinishWorker, RunFailed, AllFinished, Quiesced, Reject>;

}  // namespace paceline::sync
