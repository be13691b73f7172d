// Grants: who waits for its next iteration, and who may begin it: worker at clock c under threshold s once
// c - floor <= s (docs/SYNC.md, The one rule), and unless the run halts. A worker for which there is no
// iteration left is told to finish. Grants ahead are in grants_ahead.cc.
//
//   SSP, s = 1: 0.0 has come to clock 5, the slowest is at 3     ask(0.0): it waits for floor 4
//   the slowest comes to 4                                       release(): Grant{0.0, clock 5}
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "common/instant.h"
#include "common/status.h"
#include "common/sync/actions.h"
#include "common/sync/deferred_grants.h"
#include "common/sync/engine_parts.h"
#include "common/sync/update_sequence.h"

namespace paceline::sync {

// Thread: one (the engine's).
class Grants {
 public:
  // Both outlive it.
  Grants(EngineParts& run, const UpdateSequence& updates) : run_(run), updates_(updates) {}
  void resume(Staleness max_gap) { max_gap_ = max_gap; }

  // `rank` wants to begin the iteration at its clock: it waits for release(), or is told to finish.
  void ask(Rank rank);
  // `rank` has completed an iteration: it is in the one that it was granted ahead, or asks.
  void go_on(Rank rank);
  // Grants, or finishes, everybody whom the floor releases. Somebody is live. False: there was nobody.
  bool release();
  // Thresholds are others than when it was said what each waits for.
  void requeue_all();
  // `rank`, which is live, waits for nothing any more.
  void withdraw(Rank rank);
  // `rank` is lost in an iteration, and perhaps with the next one granted: shards drop both, others do them
  // again. How many of the two it had begun.
  std::int64_t abandon(Rank rank);

  // Nobody is granted another iteration, but for those of whose group (stopped_together()) somebody has begun it: so
  // the group ends at one clock. The held are told at once, the running when all that they were granted, which may be
  // two, is completed. A second stop changes nothing.
  //   a group at clocks 4 (running) and 5 (running), s = 2: both come to 6
  void stop(const std::string& reason);
  // Something was not finite: RunFailed, and a stop. One that is under way waits for nobody's further iterations.
  void fail(const std::string& reason);
  // Versioned, everybody is to come to one clock: to the highest that somebody is at, or will have come to by
  // completing what it is in. Who is below is granted as ever until then, so it takes a slow worker as many
  // iterations as others lead it by. Where each gradient is applied on arrival nothing waits for anybody
  // else's.
  //   clocks 4 (running), 6 (held), 5 (running), s = 2: all come to 6
  // Errors, both: kFailedPrecondition.
  Status quiesce();
  Status end_quiesce();

  // Says of whoever is held for long that it is: a worker's deadline is for silence, not for holding
  // (docs/PROTOCOL.md, 6).
  void announce();
  // That `rank` is held, as it would be announced at `now`. It is held.
  HeldNotice held(Rank rank, Ticks now) const;

  // Nobody is live: why the run is over.
  EndReason end_reason() const;
  // The largest clock - min clock at a grant.
  Staleness max_gap() const { return max_gap_; }
  // Grows with what is remembered.
  std::size_t size() const { return held_.size(); }

 private:
  std::vector<Clock> last_clocks() const;
  void halt(const std::string& reason, std::vector<Clock> last);
  void finish(Rank rank);
  void grant(Rank rank);
  void give(Rank rank, Clock clock, Version least, std::chrono::nanoseconds held);
  void ask_ahead(Rank rank);
  void grant_ahead(Rank rank);
  void enqueue(Rank rank);
  Clock needed_floor(Rank rank, Clock clock) const;

  EngineParts& run_;
  const UpdateSequence& updates_;
  DeferredGrants held_;
  Staleness max_gap_;
  bool shares_done_ = false;  // somebody did its share to the end
};

}  // namespace paceline::sync
