// EngineState: what a checkpoint of one decision holds of the synchronisation core, so that a run can be
// resumed from it. Plain data; its bytes are common/checkpoint/engine_state.h's.
//
// A resumed run is a new *generation*. What was applied stays applied, and that is all that stays: nobody has
// a cache, *every clock is the version*, and what was not applied (gradients that waited for their clock's
// turn, iterations under way) is forgotten and done again. So a state says what is left of the run, not who
// was doing it:
//
//   3 workers, even, 12 iterations, versioned, s = 2; they stand at clocks 4, 3 and 2
//     saved     version 2, revision 6, left [6, 12): 6, 7 and 9 are held, so they are among them
//     resumed   all three at clock 2, with 6 7 8; then 9 10 11
//   the same, eager: 6, 7 and 9 are applied
//     saved     version 2, revision 9, left [8, 9) [10, 12)
//     resumed   all three at clock 2, with 8 10 11; then nothing is left
//
// docs/SYNC.md, Saved and resumed; docs/RELIABILITY.md, Surviving a server.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "common/status.h"
#include "common/sync/engine_config.h"
#include "common/sync/iteration_range.h"
#include "common/sync/lpr.h"
#include "common/sync/modes.h"

namespace paceline::sync {

// What a switch looks at of a window of training metrics.
struct StageWindow {
  double loss_mean = 0.0;
  double accuracy = 0.0;  // 0..1
};

// What of the policies outlives a resume. Of DSSP nothing: it measures anew.
struct PolicyState {
  PolicyKind kind = PolicyKind::kBsp;
  // dtssp, random_walk: s in force (the walk's place in its coins is the number of windows closed, which
  // follows from the version); under switch that of the policy in force. 0 with the others.
  std::int64_t threshold = 0;
  // switch: which policy is in force, since when, and the last window that began in it.
  std::size_t stage = 0;
  Version stage_begun_at;
  std::optional<StageWindow> stage_window;
};

struct WorkerState {
  bool there = false;           // live, or finished; not: lost, or never there
  std::uint32_t staleness = 0;  // of its last gradient that was decided
  bool starts_over = false;     // it has completed nothing since it came (Grant::starts_over)
};

struct EngineState {
  // Of which run. A state of another is refused.
  Cluster cluster;
  std::int64_t total_iterations = 1;
  std::int64_t batch_size = 1;

  // What is applied.
  Version version;
  Revision revision;
  std::int64_t skipped = 0;  // closed without a gradient (NaN)

  // What is left: iterations neither applied nor skipped, ascending and not overlapping. Empty where each
  // clock is cut for all workers of the run (share: even with backup workers or with batches by speed): what
  // is left of such a run follows from the version.
  IterationRanges left;

  std::vector<WorkerState> workers;  // by rank
  PolicyState policy;
  LprState lpr;
  std::vector<std::int64_t> batch_sizes;  // batches by speed: in effect, by rank; else empty

  // For the reports.
  std::int64_t dropped = 0;
  std::int64_t lost = 0;
  Staleness max_grant_gap;
  Staleness max_clock_gap;
};

// Whether a run of `config`, which is valid, can be resumed from `state`. The state comes from a file.
// Errors: kInvalidArgument, naming the field, what was got and what was expected: another cluster, budget,
// batch size, policy or window than `config`'s; numbers that are negative or above what any run has; what is
// left not in order, or not, with what is applied and skipped, the whole run; a threshold, stage or batch
// sizes that `config` does not allow.
Status validate(const EngineState& state, const EngineConfig& config);

// How many iterations of the run are over: applied, or closed without a gradient.
std::int64_t iterations_over(const EngineState& state);
// Whether a run that goes on from `state`, which is valid, has no iteration to do.
bool nothing_is_left(const EngineState& state, const EngineConfig& config);

// `state` of a run that had another total_iterations than `config`, which is the same otherwise: further
// iterations come after all others; of a run that is made shorter the last ones of those left are taken away.
// 10 iterations, left [6, 8) [9, 10): 12 make it [6, 8) [9, 12), and 9 make it [6, 8).
// Errors: those of validate(); kFailedPrecondition more is over than `config` has; or its last clock was cut
// for fewer workers, where clocks are cut for all workers of the run (see `left`).
Result<EngineState> with_total_iterations(EngineState state, const EngineConfig& config);

}  // namespace paceline::sync
