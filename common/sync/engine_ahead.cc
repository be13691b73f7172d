// The Engine's grants ahead (exchange.hidden): a worker in iteration c is granted c + 1 as soon as it could begin
// that if its gradient of c never came. The rule stays c + 1 - floor <= s, with the worker itself at clock c: its own
// gradient, which is computed or on its way, counts as missing like anybody's. So no bound is wider than without; and
// where s is 0 nothing is granted ahead.
//
//   SSP, s = 1, both workers at clock 4. A is granted 4; 5 - 4 <= 1, so it is granted 5 with it, min_version 4
//   A has computed 4, its push leaves, and it computes 5 meanwhile. It is not granted 6: 6 - 4 > 1
//   both gradients stamped 4 are whole: version 5; A, at clock 5, is granted 6, min_version 5
//
// A worker has two iterations at most: the one that it is in, and the one behind that. Messages about both may come
// at any time; the first is completed first. A worker that is lost in the first has nothing of the second.
#include <utility>

#include "common/assert.h"
#include "common/sync/engine.h"

namespace paceline::sync {

bool Engine::granted_ahead(Rank rank) const {
  return !ahead_.empty() && ahead_[rank.value].phase == Ahead::Phase::kGranted;
}

// Of those that `rank` is in or was granted ahead, the one stamped `clock`.
RunningIteration& Engine::iteration(Rank rank, Clock clock) {
  Worker& w = at(rank);
  return granted_ahead(rank) && clock == w.clock.next() ? ahead_[rank.value].running : w.running;
}

// `rank` has begun an iteration. It is granted the next in settle(), or has that filed.
void Engine::ask_ahead(Rank rank) {
  if (stop_reason_ || share_.done(rank, at(rank).clock.next())) return;
  Ahead& ahead = ahead_[rank.value];
  ahead.phase = Ahead::Phase::kAsked;
  ahead.reported.reset();
  if (at(rank).running.reported()) ahead.reported = now_;
  enqueue_held(rank);
}

// A pool may have run dry since it asked.
void Engine::grant_ahead(Rank rank) {
  Ahead& ahead = ahead_[rank.value];
  const Clock clock = at(rank).clock.next();
  ahead.phase = Ahead::Phase::kNone;
  if (share_.done(rank, clock)) return;
  ahead.phase = Ahead::Phase::kGranted;
  ahead.held = ahead.reported.has_value();
  give(rank, clock, begins_, ahead.reported ? now_ - *ahead.reported : std::chrono::nanoseconds::zero());
}

// What it has asked for and not been granted.
void Engine::forget_ahead(Rank rank) {
  if (ahead_.empty()) return;
  Ahead& ahead = ahead_[rank.value];
  if (ahead.phase != Ahead::Phase::kAsked) return;
  ahead.phase = Ahead::Phase::kNone;
  held_.remove(rank, ahead.needed);
}

// Its clock has moved: it is in what it was granted ahead.
void Engine::promote(Rank rank) {
  PACELINE_ASSERT(granted_ahead(rank), "worker " + to_string(id(rank)) + " was granted nothing ahead");
  Ahead& ahead = ahead_[rank.value];
  ahead.phase = Ahead::Phase::kNone;
  at(rank).running = std::exchange(ahead.running, RunningIteration(config_.shards));
  at(rank).since = now_;
  at(rank).held = ahead.held;
}

// `rank` has completed an iteration.
void Engine::go_on(Rank rank) {
  if (granted_ahead(rank)) {
    promote(rank);
    return ask_ahead(rank);
  }
  forget_ahead(rank);
  ask(rank);
}

// It is lost in an iteration, and perhaps with the next one granted.
void Engine::depart_running(Rank rank) {
  Worker& w = at(rank);
  forget_ahead(rank);
  w.needed = granted_ahead(rank) ? w.clock.next().next() : w.clock.next();
  if (w.running.has_gradient()) {
    complete(rank);
    if (!granted_ahead(rank)) return share_.lose(rank, w.clock, std::nullopt);
    promote(rank);
    return depart_running(rank);
  }
  emit(Discard{id(rank), w.clock});
  ++lost_;
  if (!granted_ahead(rank)) return share_.lose(rank, w.clock, w.running.iteration());
  Ahead& ahead = ahead_[rank.value];
  ahead.phase = Ahead::Phase::kNone;
  emit(Discard{id(rank), w.clock.next()});
  if (w.running.reported() || ahead.running.begun()) ++lost_;  // else nobody has begun it
  share_.lose(rank, w.clock, w.running.iteration(), ahead.running.iteration());
}

}  // namespace paceline::sync
