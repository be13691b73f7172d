// Freshness: what a training thread reads its parameters from, and when parameters are asked for ahead of
// need. The rules of docs/SYNC.md, What a worker sees, as pure functions of what the thread, its node and its
// grant say.
//
// In the order of an iteration at clock c:
//   decide_read()          with the grant: thread cache, process cache, or wait for the servers
//   prefetch()             while computing: fetch what the next iteration will require, if it exists already
//   pull_with_push()       about to push stamp c: let the parameters for c + 1 come down with its grant, or
//                          while the gradient goes up
//   serves()               before sending a pull: does one of another thread of the node do as well?
//
// Worked example, SSP s = 3, versioned. Granted clock 8: min_version 5, version 6 exists. The thread holds
// version 5, taken at its clock 7:
//   required                 no: 5 >= min_version
//   due, refresh_clocks 1    yes: the snapshot is 8 - 7 = 1 clock old and version 6 exists. If the process
//                            cache has version 6 it is copied, else the servers are asked for 6
//   due, refresh_clocks null never: it computes with version 5 and sends nothing
#pragma once

#include <cstdint>
#include <optional>

#include "common/clock.h"
#include "common/sync/modes.h"

namespace paceline::cache {

struct FreshnessRules {
  ApplyMode apply = ApplyMode::kVersioned;     // of the grant: versioned compares versions, eager revisions
  std::optional<std::int64_t> refresh_clocks;  // r >= 1; none: refresh only when required
  bool pulls_before_push = true;               // pull_with_push(): what may go ahead of a push does
  // The next grant does not wait for the push (exchange.hidden): nothing that is merely due is waited for, and what
  // is asked for with a push is for the iteration after the next.
  bool hidden = false;
};

// What became of the pull that the thread sent, or joined, with its last push (pull_with_push()).
enum class PullWithPush {
  kNone,       // there was none
  kPending,    // it is not answered yet
  kInstalled,  // what the servers had when it came is in the process cache
};

// What a grant says (or, for the iteration to come, what is known of it).
struct ReadRequest {
  Clock clock;          // of the iteration that will compute with the parameters
  Version min_version;  // older ones must not be used: max(0, c - s)
  // The newest known to exist: the largest that any grant or answer to this node has named.
  Version version;
  Revision revision;
  PullWithPush with_push = PullWithPush::kNone;
};

// What the thread cache holds.
struct ThreadCacheState {
  Version version = kNoVersion;
  Revision revision = kNoRevision;
  Clock taken_at;  // the thread's clock when it took this snapshot
};

// What the process cache holds (SnapshotStamp::version(), revision()).
struct ProcessCacheState {
  Version version = kNoVersion;
  Revision revision = kNoRevision;
};

enum class ReadSource {
  kThreadCache,   // compute with what is there: nothing is copied, nothing sent     phase T_CACHE_PARAM
  kProcessCache,  // copy the process cache, re-apply own updates; nothing sent       phase P_CACHE_PARAM
  kServer,        // pull into the process cache first                                phase PS_PARAM, then
                  // P_CACHE_PARAM
};

struct ReadDecision {
  ReadSource source = ReadSource::kThreadCache;
  // kServer: what to ask every server for. It exists, or comes into being with this very grant, so no server
  // holds the answer for long. After the pull is installed, ReadRequest::min_version is met.
  Version min_version;
};

// Where a thread's parameters come from. Required: its snapshot is older than min_version. Due: its snapshot
// is r of its own clocks old and something newer is known to exist; then the newest known is wanted. A pull
// with the push counts as that refresh, though a version may have come into being right after it (in eager
// mode the thread's own gradient always does): asking again would make every iteration two round trips.
ReadDecision decide_read(const FreshnessRules& rules, const ReadRequest& request,
                         const ThreadCacheState& thread, const ProcessCacheState& process);

struct PullPlan {
  bool send = false;
  Version min_version;  // the servers hold the answer until they have it
};

// Just granted clock c with threshold s: the version that clock c + 1 will require under s, when neither
// cache has it and it is known to exist. Sent while the thread computes, so it costs no waiting. Never for
// what does not exist yet: then it comes with the push. `version`: the newest known to exist.
PullPlan prefetch(Clock clock, Threshold s, Version version, const ThreadCacheState& thread,
                  const ProcessCacheState& process);

// About to push stamp c, last granted under s: whether a pull goes with the push, so that an iteration is one
// round trip. Yes where clock c + 1 requires more than the caches hold (s = 0, or the thread stands at its
// bound), or where a refresh will be due. Send it with the revision the process cache has, so that a server
// with nothing newer answers Unchanged. s may fall or rise before the next grant, so decide_read() has the
// last word when it comes.
//
// Hidden, s of 1 or more: with a push stamped c what clock c + 2 requires is asked for; with a refresh that is due what
// c + 3 does, if it need not wait for this thread. So it may take a round to come down, under s = 2 two. What c + 1
// requires was asked for before.
//
//   s = 1, c = 8   version 9, for clock 10      s = 2   version 9, for clock 11      s = 3   version 8, for clock 11
struct PullWithPushPlan {
  bool send = false;
  Version min_version;  // as in PullPlan
  // What exists will do, so that the answer does not wait for the grant: it is copied in before that is looked
  // for.
  bool answered_at_once = false;
  // Whether it goes ahead of whatever of the push has not left, or right after the push.
  bool before_push = false;
};

// After the push: what is required does not exist yet. The servers hold the answer as long as the authority holds the
// grant, and both come down together.
//
// Before the push: a refresh that is merely due, under eager. What exists will do; the servers answer at once, and the
// parameters come down while the gradient goes up. What that gives up are the gradients that are applied
// during the one transfer, this thread's own among them, which it has: it is added again like any that a
// snapshot lacks (own_updates.h). It gives up no guarantee: the model state is min_version, which
// decide_read() asks of the caches with the grant, wherever the pull went; own gradients are added by applied
// clocks; older slices are not installed.
//
//   eager, r = 1, revision 40, which has this thread's stamps < 9; it pushes 9 while B's gradient arrives
//     after    up, then down: answered with 42, which has 9 and B's, once both are applied
//     before   down while 9 goes up: answered with 40. The thread computes clock 10 with 40 + its own 9, and
//              sees B's gradient at clock 11
//
// Where both ways are copies by the same processor, a pull before the push hides nothing, and one after it is less work
// (pulls_before_push: false). With one shard the thread then makes no step of its own again. And the server, whose
// state is not leaving while the gradient comes, steps it in place.
//
// Versioned pulls go after the push, whether a refresh is due or required: a version holds a whole clock of every
// worker, and the slowest worker's push is what completes it. If that worker pulled ahead of its push, it
// would compute with one version less at every clock, not only without what arrives during one transfer.
PullWithPushPlan pull_with_push(const FreshnessRules& rules, Clock clock, Threshold s,
                                const ThreadCacheState& thread, const ProcessCacheState& process);

// Threads of a node share pulls: whether one that is outstanding for `outstanding` answers a thread that
// needs `needed`, `newest_known` being the newest version known to exist. Not one for a version that neither
// exists nor is needed: it may be waiting for this very thread to go on. (s = 3, slowest thread at clock 4
// needs version 1; its neighbour at the bound waits for version 7, which cannot exist before the slowest has
// completed clock 6.)
bool serves(Version outstanding, Version needed, Version newest_known);

}  // namespace paceline::cache
