// What the tests need to look inside the core, and nothing else: mutants (each rule broken on purpose once,
// so that a test can be seen to fail) and a count of elementary operations (so that O(1) is shown, not
// timed). In every normal build all of it is constant and compiles to nothing; only the mutant tests
// (tests/sim for the core, tests/process for what servers and nodes do with it) compile it with
// PACELINE_TEST_HOOKS, and only those of the core, which have one thread, with PACELINE_COUNT_OPERATIONS.
#pragma once

#ifdef PACELINE_COUNT_OPERATIONS
#include <cstdint>
#endif

namespace paceline::sync {

// One rule each, broken. The comment is what the broken core does instead.
enum class Mutant {
  kNone,
  kFloorIsAverage,           // the fast wait for the average, not for the slowest
  kLeadOneTooFar,            // c - floor <= s + 1
  kVersionBeforeAllArrived,  // the version follows the fastest worker
  kClockMovesBeforeShards,   // the clock moves with the report, whatever the shards hold
  kDuplicateArrivalCounts,   // the same shard announced twice counts as two shards
  kPartialPushApplied,       // a lost worker's half-arrived gradient is applied
  kCompletePushDiscarded,    // a lost worker's whole gradient is thrown away on some occasions only: at its
                             // loss
  kLostStaysInTable,         // everybody waits for the dead for ever
  kLeaverReleasesNobody,     // held grants are not looked at again when the slowest leaves
  kArrivalOrder,             // gradients of a clock are applied as they came
  kThresholdUnclamped,       // DTSSP or the random walk leaves [threshold_min, threshold_max]
  kWalkSameCoin,             // the random walk throws one coin for all windows
  kDsspOneTooMany,           // DSSP grants an extra iteration more than it predicted, or has room for
  kDsspNotOnlyFastest,       // DSSP asks for whoever leads by more than s_L
  kDsspDepartedIsSlowest,    // DSSP predicts by one who has left
  kDsspPredictsFromOnePush,  // DSSP predicts by a slowest that has no interval yet
  kReturnKeepsExtra,         // DSSP: who comes back has the extra iterations that it had when it was lost
  kBackupOneTooFew,          // a clock closes with N - 1 gradients, though more are on their way
  kBackupWaitsForAll,        // ... or not before every live worker's
  kBackupLateApplied,        // a late gradient counts for the clock that its worker goes on with
  kBackupNotDiscarded,       // shards are not told to drop what is late
  kBatchesOverlap,           // batches of unequal sizes begin where equal ones would
  kLostPartCounts,           // a clock's samples contain those that the lost would have computed
  kOtherSamplesAccepted,     // a gradient of other samples than its grant's is taken
  kSwitchTooSoon,            // the next policy takes over at the first version, whatever is asked for
  kSwitchForgetsHeld,        // held grants are not looked at again when another policy takes over
  kStaysVersioned,  // gradients still wait for their clock's turn under a policy that applies on arrival
  kHeldForgottenAtSwitch,    // ... or those that wait when it takes over are never applied
  kEagerAveraged,            // ... or are averaged as before
  kLprSignAsPrinted,         // (previous - current) / previous, as the DTSSP paper prints it
  kLostIterationForgotten,   // share: pool: an iteration granted to a lost worker is never given out again
  kLeftUndone,               // share: even: what a lost worker leaves is done by nobody
  kTakenOverTwice,           // ... or by the others and by itself, when it has come back
  kEarlyTakenTwice,          // ... an iteration that was taken before its clock is taken again at it
  kNotOvertaken,             // ... what was taken out of turn is given again by the plan that was there
  kComerClosesEarlier,       // a clock below that at which somebody comes counts on a gradient of his
  kJoinerAtFastest,          // who comes late begins where the fastest stands
  kReturnRepeatsStamp,       // who comes back may begin with a stamp that it had before
  kJoinerReadsOlder,         // who comes late may compute with a version older than the min clock
  kAheadIsForgotten,         // resumed, eager: what was applied of clocks beyond the version is done again
  kHeldCountsAsDone,         // resumed: what was held when the run was saved is done by nobody
  kMetricCountsWhenHeld,     // ... or its metric counts, and that of the same iteration done again, too
  kResumedReadsOlder,        // resumed: a grant asks for no more than a version that nobody has any more
  kStopStillGrants,          // after a stop the held are granted once more
  kInvalidGradientApplied,   // a gradient with NaN is applied
  kOwnUpdatesMissed,         // own updates on top of a snapshot count as ones that a gradient lacks
  kStalenessOfFirst,         // all gradients of a decision are as stale as if each were its first
  kStaleCacheAccepted,       // a cache one version too old is used
  kProcessCacheAlwaysFresh,  // the process cache is used without looking at its version
  kReapplyForgetsNewest,     // read-my-writes loses the newest own gradient
  kReapplyRepeatsContained,  // an own gradient that the snapshot contains is added again
  kInstallOlder,             // a slice that arrives late replaces a newer one
  kCoreCount,

  // Outside the core: store and caches, found over real sockets.
  kDifferenceForgotten = kCoreCount,  // a thread cache leaves the newest difference out of a refresh
  kDifferenceTwice,                   // ... or adds it twice
  kWaitingForgotten,                  // an own gradient whose local apply was put off is never applied
  kLandedKept,                        // what has landed is kept, whichever slice follows
  kRefreshSkipped,                    // a thread computes with what it has, though the grant asks for newer
  kOlderSliceKept,           // the process cache takes over a slice that arrives late (but not its stamp)
  kDecisionTwice,            // a shard applies some decisions twice
  kDecisionLeftOut,          // a shard goes on as if it had applied some decisions that it has not
  kPullAnsweredTooSoon,      // a shard answers with what it has, not with the version that was asked for
  kExactAnsweredFromNow,     // an exact pull is answered with the current state
  kSlowReadersNotCounted,    // a pull is answered with the newest state, whatever is still leaving
  kPreparedWhateverDecided,  // what was prepared is taken over, whatever gradients the decision names
  kPreparedKeptAfterLoss,    // ... or though a gradient in it was lost and has come again
  kBackupIsNewest,           // a gradient is compensated from the state that its worker was sent last
  kBackupWithoutOwn,         // ... or from one without the worker's own gradients on top
  kLetGoOnReceipt,           // a gradient that lies in a worker's memory is let go of before it is applied
  kLateHeld,                 // a gradient that was discarded before it had come whole is held when it has
  kLentTakenTooLate,         // parameters that lie in a server's memory are let go of before they are taken
  kLentCopiedTooLate,        // ... or before they are copied for those who take them later
  kLentKept,                 // ... or not when they have been taken
  kRepeatedPushTaken,        // behind a connection that broke a gradient that is here whole is taken again
  kLentReadAfterBreak,       // ... or what a worker lent is read on in its memory
  kNotSaidAgain,             // a node does not say its gradient again over the next connection
  kNotAskedAgain,            // ... or does not ask again for the parameters that have not come
  kCount
};

#ifdef PACELINE_TEST_HOOKS
// Other symbols than in a normal build, so that a program may be hooked in part.
inline namespace hooked {
inline Mutant active_mutant = Mutant::kNone;
inline bool broken(Mutant m) { return active_mutant == m; }
// Floats that nobody may read any more.
template <typename Floats>
void spoil(Floats& floats) {
  for (float& f : floats) f = __builtin_nanf("");
}
}  // namespace hooked
#else
constexpr bool broken(Mutant) { return false; }
template <typename Floats>
constexpr void spoil(Floats&) {}
#endif

#ifdef PACELINE_COUNT_OPERATIONS
inline namespace hooked {
inline std::uint64_t operations = 0;
inline void count_operation() { ++operations; }
}  // namespace hooked
#else
constexpr void count_operation() {}
#endif

}  // namespace paceline::sync
