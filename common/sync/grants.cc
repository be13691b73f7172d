#include "common/sync/grants.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "common/sync/batch_plan.h"

namespace paceline::sync {
namespace {

constexpr Clock kNever(std::numeric_limits<std::int64_t>::max());  // no floor is

}  // namespace

void Grants::ask(Rank rank) {
  WorkerEntry& w = run_.workers[rank];
  // Who has completed the open clock of a pool with backup workers waits for its end even if the pool is
  // empty: what those who are late then give back is done by all who are there.
  const bool may_give_back = run_.config.share == Share::kPool && run_.per_clock < run_.workers.size();
  if (run_.halt.stops(rank, w.clock) || (!may_give_back && run_.share.done(rank, w.clock))) {
    finish(rank);
    return;
  }
  w.phase = WorkerPhase::kHeld;
  w.since = run_.step.now;
  w.next_notice = run_.step.now + run_.config.held_notice_after;
  enqueue(rank);
}

// Under what releases it. Who is in an iteration has asked ahead.
void Grants::enqueue(Rank rank) {
  WorkerEntry& w = run_.workers[rank];
  const bool ahead = w.phase == WorkerPhase::kRunning;
  Clock& needed = ahead ? run_.workers.ahead(rank).needed : w.needed;
  needed = needed_floor(rank, ahead ? w.clock.next() : w.clock);
  held_.add(rank, needed);
}

void Grants::requeue_all() {
  for (const Rank rank : held_.take_all()) enqueue(rank);
}

// c - floor <= s, said of the floor: floor >= c - s.
Clock Grants::needed_floor(Rank rank, Clock clock) const {
  if (run_.halt.blocks(clock)) return kNever;
  // Others of its group, in an iteration, wait for it.
  if (run_.halt.stopping() && run_.config.group > 1) return Clock(0);
  const Threshold s = run_.policy->threshold_for(rank, clock);
  if (s.is_infinite()) return Clock(0);
  return Clock(clock.value - s.value());
}

bool Grants::release() {
  const std::vector<Rank> released = held_.take_released(run_.policy->floor(run_.clocks));
  for (const Rank rank : released) {
    const WorkerEntry& w = run_.workers[rank];
    if (w.phase == WorkerPhase::kRunning) {
      grant_ahead(rank);
      continue;
    }
    // The pool may have run dry while this worker was held.
    run_.share.done(rank, w.clock) ? finish(rank) : grant(rank);
  }
  return !released.empty();
}

void Grants::grant(Rank rank) {
  WorkerEntry& w = run_.workers[rank];
  Version least = updates_.begins();
  // Its caches are empty: so it has what it pushed before it was lost, as far as that is below the min clock.
  if (std::exchange(w.fresh, false)) {
    w.running.reads_no_older_than(updates_.version_begins());
    least = std::max(least, Version(run_.clocks.min_clock().value));
  }
  const auto held = run_.step.now - w.since;
  w.phase = WorkerPhase::kRunning;
  w.since = run_.step.now;
  w.held = run_.workers.grants_ahead();
  give(rank, w.clock, least, held);
  if (run_.workers.grants_ahead()) ask_ahead(rank);
}

// `rank` may begin the iteration stamped `clock`, with parameters of `least` or what the threshold says.
void Grants::give(Rank rank, Clock clock, Version least, std::chrono::nanoseconds held) {
  WorkerEntry& w = run_.workers[rank];
  const Threshold s = run_.policy->threshold_for(rank, clock);
  const Clock min_clock = run_.clocks.min_clock();
  Version min_version = std::max(s.oldest_version(clock), least);
  // Eager, no stop moves the version: a stage that its group waits for is granted with the newest that there will be.
  if (run_.halt.stopping() && updates_.apply_mode() == ApplyMode::kEager) {
    min_version = std::min(min_version, updates_.version());
  }
  max_gap_ = std::max(max_gap_, clock - min_clock);
  const std::int64_t iteration = run_.share.take(rank, clock);
  const BatchPart batch = run_.batches.part(rank, clock, iteration);
  // Where sizes follow what is reported, it has to be true; else a task may count as it likes.
  const bool unequal = run_.config.batch_sizing != BatchSizing::kEqual;
  const std::int64_t samples = unequal ? batch.samples : RunningIteration::kAnySamples;
  if (clock == w.clock) {
    w.running.begin(iteration, min_version, samples);
  } else {
    run_.workers.ahead(rank).running.begin_after(w.running, iteration, min_version, samples);
  }
  const std::int64_t contributors = std::min(run_.clocks.contributors(clock), run_.per_clock);
  run_.step.emit(Grant{run_.workers.id(rank), clock, iteration, s, min_clock, min_version, updates_.version(),
                       updates_.revision(), contributors, held, batch.position, batch.samples,
                       run_.batches.clock_samples(clock, contributors), w.staleness, updates_.apply_mode(),
                       run_.policy->stage(), w.starts_over});
}

void Grants::finish(Rank rank) {
  WorkerEntry& w = run_.workers[rank];
  const auto held =
      w.phase == WorkerPhase::kHeld ? run_.step.now - w.since : std::chrono::nanoseconds::zero();
  w.phase = WorkerPhase::kFinished;
  run_.policy->on_departure(rank);
  run_.clocks.remove(w.clock);
  const bool stopped = run_.halt.stopping();
  // Who is stopped leaves its share undone: it is done when the run is resumed.
  stopped ? run_.share.lose(rank, w.clock, std::nullopt) : run_.share.leave(rank);
  if (!stopped && !w.fresh) shares_done_ = true;  // who came when nothing was left has done nothing
  run_.step.emit(FinishWorker{run_.workers.id(rank), stopped ? run_.halt.reason() : "share done", held});
}

void Grants::stop(const std::string& reason) {
  if (run_.halt.stopping()) return;
  WorkerTable& workers = run_.workers;
  if (!run_.started) {
    // Nothing was granted, so there is nothing to wait for; those who joined are told, the others never come.
    run_.halt.stop(reason, {});
    run_.started = true;
    for (std::uint32_t r = 0; r < workers.size(); ++r) {
      if (workers[Rank(r)].phase != WorkerPhase::kJoined) continue;
      run_.clocks.add(workers[Rank(r)].clock);
      run_.share.join(Rank(r));
    }
    for (std::uint32_t r = 0; r < workers.size(); ++r) {
      if (workers[Rank(r)].phase == WorkerPhase::kJoined) finish(Rank(r));
    }
    return;
  }
  halt(reason, last_clocks());
}

// As Halt::stop(), of a run that has begun. The held wait no longer, unless they have to come to a clock further on.
void Grants::halt(const std::string& reason, std::vector<Clock> last) {
  WorkerTable& workers = run_.workers;
  run_.halt.stop(reason, std::move(last));
  for (const Rank rank : held_.take_all()) {
    const WorkerEntry& w = workers[rank];
    if (w.phase != WorkerPhase::kHeld) {
      workers.ahead(rank).phase = AheadGrant::Phase::kNone;
    } else if (!run_.halt.stops(rank, w.clock)) {
      enqueue(rank);
    } else {
      finish(rank);
    }
  }
}

// By group, to which clock whoever is furthest will have come. Of a run that has failed nothing is gone on from, so
// only those are waited for who cannot do without each other.
std::vector<Clock> Grants::last_clocks() const {
  const std::uint32_t group = stopped_together(run_.config);
  if (group == 1 || (run_.halt.failed() && run_.config.group == 1)) return {};
  std::vector<Clock> last(run_.workers.size() / group, Clock(0));
  for (std::uint32_t r = 0; r < run_.workers.size(); ++r) {
    const WorkerEntry& w = run_.workers[Rank(r)];
    if (!w.live()) continue;
    Clock comes_to = w.in_iteration() ? w.clock.next() : w.clock;
    if (run_.workers.granted_ahead(Rank(r))) comes_to = comes_to.next();
    last[r / group] = std::max(last[r / group], comes_to);
  }
  return last;
}

void Grants::fail(const std::string& reason) {
  if (!run_.halt.fail()) return;
  run_.step.emit(RunFailed{failed_precondition(reason)});
  if (!run_.halt.stopping()) return stop(reason);
  if (run_.config.group == 1) halt(std::string(run_.halt.reason()), {});
}

Status Grants::quiesce() {
  if (!run_.started || run_.finished) {
    return failed_precondition("nothing to quiesce: training is not under way");
  }
  if (run_.halt.stopping()) {
    return failed_precondition("nothing to quiesce: training ends: " + run_.halt.reason());
  }
  if (!workers_come_and_go(run_.config)) {
    return failed_precondition("with backup workers or batches by speed a run is not quiesced");
  }
  if (run_.halt.quiescing()) return Status::ok();
  Clock target(0);
  if (updates_.apply_mode() == ApplyMode::kVersioned) {
    // Somebody who has gone may have had more whole than anybody who is here: that waits for its clock's turn.
    target = updates_.after_waiting();
    for (std::uint32_t r = 0; r < run_.workers.size(); ++r) {
      const WorkerEntry& w = run_.workers[Rank(r)];
      if (w.live()) target = std::max(target, w.phase == WorkerPhase::kRunning ? w.clock.next() : w.clock);
      if (run_.workers.granted_ahead(Rank(r))) target = std::max(target, w.clock.next().next());
    }
  }
  run_.halt.quiesce(target);
  requeue_all();
  return Status::ok();
}

Status Grants::end_quiesce() {
  if (!run_.halt.quiescing()) return failed_precondition("the run was not quiesced");
  run_.halt.end_quiesce();
  requeue_all();
  return Status::ok();
}

void Grants::announce() {
  if (held_.size() == 0) return;
  for (std::uint32_t r = 0; r < run_.workers.size(); ++r) {
    WorkerEntry& w = run_.workers[Rank(r)];
    if (w.phase != WorkerPhase::kHeld || run_.step.now < w.next_notice) continue;
    w.next_notice = run_.step.now + run_.config.held_notice_every;
    run_.step.emit(held(Rank(r), run_.step.now));
  }
}

HeldNotice Grants::held(Rank rank, Ticks now) const {
  const WorkerEntry& w = run_.workers[rank];
  const Clock slowest = run_.clocks.min_clock();
  return HeldNotice{run_.workers.id(rank),
                    w.clock,
                    w.clock - slowest,
                    run_.workers.id(run_.workers.slowest(slowest)),
                    run_.policy->threshold_for(rank, w.clock),
                    now - w.since};
}

EndReason Grants::end_reason() const {
  if (run_.halt.stopping()) return run_.halt.failed() ? EndReason::kFailed : EndReason::kStopped;
  return shares_done_ ? EndReason::kComplete : EndReason::kNobodyLeft;
}

}  // namespace paceline::sync
