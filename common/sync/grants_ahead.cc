// Grants ahead (exchange.hidden): a worker in iteration c is granted c + 1 as soon as it could begin
// that if its gradient of c never came. The rule stays c + 1 - floor <= s, with the worker itself at clock c: its own
// gradient, which is computed or on its way, counts as missing like anybody's. So no bound is wider than without; and
// where s is 0 nothing is granted ahead.
//
//   SSP, s = 1, both workers at clock 4. A is granted 4; 5 - 4 <= 1, so it is granted 5 with it, min_version 4
//   A has computed 4, its push leaves, and it computes 5 meanwhile. It is not granted 6: 6 - 4 > 1
//   both gradients stamped 4 are whole: version 5; A, at clock 5, is granted 6, min_version 5
//
// A worker has two iterations at most: the one that it is in, and the one after that. Messages about both may come
// at any time; the first is completed first. A worker that is lost in the first has nothing of the second.
#include "common/sync/grants.h"

namespace paceline::sync {

// `rank` has begun an iteration. It is granted the next in release(), or has that filed.
void Grants::ask_ahead(Rank rank) {
  const WorkerEntry& w = run_.workers[rank];
  if (run_.halt.stopping() || run_.share.done(rank, w.clock.next())) return;
  AheadGrant& ahead = run_.workers.ahead(rank);
  ahead.phase = AheadGrant::Phase::kAsked;
  ahead.reported.reset();
  if (w.running.reported()) ahead.reported = run_.step.now;
  enqueue(rank);
}

// A pool may have run dry since it asked.
void Grants::grant_ahead(Rank rank) {
  AheadGrant& ahead = run_.workers.ahead(rank);
  const Clock clock = run_.workers[rank].clock.next();
  ahead.phase = AheadGrant::Phase::kNone;
  if (run_.share.done(rank, clock)) return;
  ahead.phase = AheadGrant::Phase::kGranted;
  ahead.held = ahead.reported.has_value();
  const auto held = ahead.reported ? run_.step.now - *ahead.reported : std::chrono::nanoseconds::zero();
  give(rank, clock, updates_.begins(), held);
}

void Grants::go_on(Rank rank) {
  if (run_.workers.granted_ahead(rank)) {
    run_.workers.promote(rank, run_.step.now);
    return ask_ahead(rank);
  }
  withdraw(rank);
  ask(rank);
}

void Grants::withdraw(Rank rank) {
  const WorkerEntry& w = run_.workers[rank];
  if (w.phase == WorkerPhase::kHeld) return held_.remove(rank, w.needed);
  if (!run_.workers.grants_ahead()) return;
  AheadGrant& ahead = run_.workers.ahead(rank);
  if (ahead.phase != AheadGrant::Phase::kAsked) return;
  ahead.phase = AheadGrant::Phase::kNone;
  held_.remove(rank, ahead.needed);
}

std::int64_t Grants::abandon(Rank rank) {
  WorkerEntry& w = run_.workers[rank];
  const std::int64_t first = w.running.iteration();
  run_.step.emit(Discard{run_.workers.id(rank), w.clock});
  w.needed = w.clock.next();
  if (!run_.workers.granted_ahead(rank)) {
    run_.share.lose(rank, w.clock, first);
    return 1;
  }
  AheadGrant& ahead = run_.workers.ahead(rank);
  ahead.phase = AheadGrant::Phase::kNone;
  run_.step.emit(Discard{run_.workers.id(rank), w.needed});
  run_.share.lose(rank, w.clock, first, ahead.running.iteration());
  w.needed = w.needed.next();
  return w.running.reported() || ahead.running.begun() ? 2 : 1;
}

}  // namespace paceline::sync
