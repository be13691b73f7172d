// The Engine: who takes part, how a run begins and ends, and what can be asked about it (docs/SYNC.md, Who
// does which iteration).
#include <algorithm>
#include <utility>

#include "common/assert.h"
#include "common/sync/engine.h"

namespace paceline::sync {

Status Engine::on(const Joined& event) {
  const std::string who = "join of worker " + to_string(event.worker);
  if (!config_.cluster.contains(event.worker)) {
    return invalid_argument(who + ": the run has " + std::to_string(config_.cluster.nodes) + " nodes with " +
                            std::to_string(config_.cluster.threads_per_node) + " threads");
  }
  const Rank rank = config_.cluster.rank_of(event.worker);
  if (started_ || finished_) return come_late(rank, who);
  Worker& w = at(rank);
  if (w.phase == Phase::kJoined) return failed_precondition(who + ": it has joined before");
  w.phase = Phase::kJoined;
  if (!all_joined(event.worker.node)) return Status::ok();
  ++nodes_ready_;
  if (awaited_) awaited_->erase(event.worker.node);
  if (may_begin()) begin_training();
  return Status::ok();
}

// A resumed run goes on with those who were there, whoever else has come.
bool Engine::may_begin() const {
  if (awaited_) return awaited_->empty() && nodes_ready_ > 0;
  return nodes_ready_ == config_.nodes_at_start.value_or(config_.cluster.nodes);
}

// Before training began.
bool Engine::all_joined(NodeId node) const {
  for (std::uint32_t thread = 0; thread < config_.cluster.threads_per_node; ++thread) {
    if (at(config_.cluster.rank_of(WorkerId(node, thread))).phase != Phase::kJoined) return false;
  }
  return true;
}

void Engine::begin_training() {
  started_ = true;
  emit(Started{});
  const Clock begin(version_.value);
  const auto for_all = [this](auto action) {
    for (std::uint32_t r = 0; r < workers_.size(); ++r) {
      if (at(Rank(r)).phase != Phase::kAbsent) action(Rank(r));
    }
  };
  for_all([&](Rank) { clocks_.add(begin); });
  for_all([this](Rank rank) { share_.join(rank); });
  for (std::uint32_t r = 0; r < workers_.size(); ++r) {
    if (at(Rank(r)).phase == Phase::kAbsent) batches_.lose(Rank(r), begin);
  }
  for_all([&](Rank rank) { policy_->on_clock(rank, begin, now_, clocks_); });
  for_all([this](Rank rank) { ask(rank); });
  settle();
}

// One who was not there, or is there again, while training goes on: it begins at the min clock. A stamp names
// one gradient of a worker in the whole run, and a gradient of an old stamp may still be held, or be on its
// way to be dropped. So who comes back begins behind the stamps that it had, if that is later.
Status Engine::come_late(Rank rank, const std::string& who) {
  Worker& w = at(rank);
  if (finished_) return failed_precondition(who + ": training is over");
  if (stop_reason_) return failed_precondition(who + ": training ends: " + *stop_reason_);
  if (w.phase == Phase::kFinished) return failed_precondition(who + ": it has done its share");
  if (w.phase != Phase::kAbsent && w.phase != Phase::kGone) {
    return failed_precondition(who + ": it has joined before");
  }
  if (!workers_come_and_go(config_)) {
    return failed_precondition(
        who + ": training has begun, and with backup workers or batches by speed nobody comes later");
  }
  w.clock = std::max(clocks_.min_clock(), w.needed);
  w.running = RunningIteration(config_.shards);
  w.staleness = 0;
  w.fresh = true;
  highest_ = std::max(highest_, w.clock);
  clocks_.add(w.clock);
  note_clock_gap();
  share_.join(rank);
  policy_->on_clock(rank, w.clock, now_, clocks_);
  ask(rank);
  settle();
  return Status::ok();
}

Status Engine::on(const Lost& event) {
  if (event.node.value >= config_.cluster.nodes) {
    return invalid_argument("loss of node " + to_string(event.node) + ": there is no such node");
  }
  if (!started_ && all_joined(event.node)) --nodes_ready_;
  if (!started_ && awaited_) awaited_->erase(event.node);
  for (std::uint32_t thread = 0; thread < config_.cluster.threads_per_node; ++thread) {
    depart(config_.cluster.rank_of(WorkerId(event.node, thread)));
    // What it had whole may be the last that its clock was waiting for: the node's other threads are late
    // then.
    if (started_) close_without_late();
  }
  if (!started_ && awaited_ && may_begin()) begin_training();
  settle();
  return Status::ok();
}

// `rank` is gone: nobody waits for it any more. What it sent whole stays, what it sent in part leaves no
// trace.
void Engine::depart(Rank rank) {
  Worker& w = at(rank);
  switch (w.phase) {
    case Phase::kAbsent:
    case Phase::kGone:
      return;
    case Phase::kJoined:  // before training began: it may come back, as another incarnation
      w.phase = Phase::kAbsent;
      return;
    case Phase::kFinished:
      w.phase = Phase::kGone;
      w.needed = w.clock;
      return;
    case Phase::kHeld:
      held_.remove(rank, w.needed);
      share_.lose(rank, w.clock, std::nullopt);
      w.needed = w.clock;
      break;
    case Phase::kRunning:
      depart_running(rank);
      break;
    case Phase::kLate:  // dropped already, and given back; its clock has moved on
      share_.lose(rank, w.clock, std::nullopt);
      w.needed = w.clock;
      break;
  }
  w.phase = Phase::kGone;
  batches_.lose(rank, w.clock);
  policy_->on_departure(rank);
  clocks_.remove(w.clock);
}

Status Engine::on(const StopRequested& event) {
  if (!stop_reason_) stop(event.reason);
  settle();
  return Status::ok();
}

// Versioned, everybody is to come to one clock: to the highest that somebody is at, or will have come to by
// completing what it is in. Who is below is granted as ever until then, so it takes a slow worker as many
// iterations as others lead it by. Where each gradient is applied on arrival nothing waits for anybody
// else's.
//   clocks 4 (running), 6 (held), 5 (running), s = 2: all come to 6
Status Engine::on(const QuiesceRequested&) {
  if (!started_ || finished_)
    return failed_precondition("nothing to bring to rest: training is not under way");
  if (stop_reason_) return failed_precondition("nothing to bring to rest: training ends: " + *stop_reason_);
  if (!workers_come_and_go(config_)) {
    return failed_precondition("with backup workers or batches by speed a run is not brought to rest");
  }
  if (quiesces_at_) return Status::ok();
  Clock target(0);
  // Somebody who has gone may have had more whole than anybody who is here: that waits for its clock's turn.
  if (apply_ == ApplyMode::kVersioned) {
    target = Clock(version_.value + static_cast<std::int64_t>(gradients_.clocks()));
  }
  for (const Worker& w : workers_) {
    if (apply_ == ApplyMode::kEager || !live(w)) continue;
    target = std::max(target, w.phase == Phase::kRunning ? w.clock.next() : w.clock);
  }
  for (std::uint32_t r = 0; r < ahead_.size() && apply_ == ApplyMode::kVersioned; ++r) {
    if (granted_ahead(Rank(r))) target = std::max(target, at(Rank(r)).clock.next().next());
  }
  quiesces_at_ = target;
  requeue_all();
  settle();
  return Status::ok();
}

Status Engine::on(const QuiesceEnded&) {
  if (!quiesces_at_) return failed_precondition("the run was not brought to rest");
  quiesces_at_.reset();
  quiesced_ = false;
  requeue_all();
  settle();
  return Status::ok();
}

void Engine::look_for_rest() {
  if (!quiesces_at_ || quiesced_) return;
  if (std::any_of(workers_.begin(), workers_.end(), [](const Worker& w) { return in_iteration(w); })) return;
  quiesced_ = true;
  emit(Quiesced{version_, revision_});
}

// Of a worker that is to stop: nobody of its group gets behind this clock.
Clock Engine::stops_at(Rank rank) const {
  return groups_stop_at_.empty() ? Clock(0) : groups_stop_at_[rank.value / config_.group];
}

// Nobody is granted another iteration, but for those of whose group somebody has begun it: that one waits for them. The
// held are told at once, the running when all that they were granted, which may be two, is completed.
//   a group at clocks 4 (running) and 5 (running), s = 2: both come to 6
void Engine::stop(const std::string& reason) {
  if (stop_reason_) return;
  stop_reason_ = reason;
  quiesces_at_.reset();
  if (!started_) {
    // Nothing was granted, so there is nothing to wait for; those who joined are told, the others never come.
    started_ = true;
    for (std::uint32_t r = 0; r < workers_.size(); ++r) {
      if (at(Rank(r)).phase != Phase::kJoined) continue;
      clocks_.add(at(Rank(r)).clock);
      share_.join(Rank(r));
    }
    for (std::uint32_t r = 0; r < workers_.size(); ++r) {
      if (at(Rank(r)).phase == Phase::kJoined) finish(Rank(r));
    }
    return;
  }
  if (config_.group > 1) {
    groups_stop_at_.assign(workers_.size() / config_.group, Clock(0));
    for (std::uint32_t r = 0; r < workers_.size(); ++r) {
      const Worker& w = at(Rank(r));
      if (!live(w)) continue;
      Clock& last = groups_stop_at_[r / config_.group];
      last = std::max(last, in_iteration(w) ? w.clock.next() : w.clock);
    }
  }
  for (const Rank rank : held_.take_all()) {
    if (at(rank).phase != Phase::kHeld) {
      ahead_[rank.value].phase = Ahead::Phase::kNone;
    } else if (at(rank).clock < stops_at(rank)) {
      enqueue_held(rank);
    } else {
      finish(rank);
    }
  }
}

void Engine::finish(Rank rank) {
  Worker& w = at(rank);
  const auto held = w.phase == Phase::kHeld ? now_ - w.since : std::chrono::nanoseconds::zero();
  w.phase = Phase::kFinished;
  policy_->on_departure(rank);
  clocks_.remove(w.clock);
  // Who is stopped leaves its share undone: it is done when the run is resumed.
  stop_reason_ ? share_.lose(rank, w.clock, std::nullopt) : share_.leave(rank);
  if (!stop_reason_ && !w.fresh) shares_done_ = true;  // who came when nothing was left has done nothing
  emit(FinishWorker{id(rank), stop_reason_.value_or("share done"), held});
}

// Announces grants that are held for long: a worker's deadline is for silence, not for holding
// (docs/PROTOCOL.md, 6).
Status Engine::on(const Tick&) {
  if (held_.size() == 0) return Status::ok();
  for (std::uint32_t r = 0; r < workers_.size(); ++r) {
    Worker& w = at(Rank(r));
    if (w.phase != Phase::kHeld || now_ < w.next_notice) continue;
    w.next_notice = now_ + config_.held_notice_every;
    emit(*held_now(id(Rank(r)), now_));
  }
  return Status::ok();
}

std::optional<Held> Engine::held_now(WorkerId worker, Ticks now) const {
  if (!is_held(worker)) return std::nullopt;
  const Rank rank = config_.cluster.rank_of(worker);
  const Worker& w = at(rank);
  return Held{worker,
              w.clock,
              w.clock - clocks_.min_clock(),
              waited_for(),
              policy_->threshold_for(rank, w.clock),
              now - w.since};
}

WorkerId Engine::waited_for() const {
  PACELINE_ASSERT(!clocks_.empty(), "nobody is live");
  const Clock slowest = clocks_.min_clock();
  const auto stands_there = [&](const Worker& w) { return live(w) && w.clock == slowest; };
  auto found = std::find_if(workers_.begin(), workers_.end(), [&](const Worker& w) {
    return stands_there(w) && w.phase != Phase::kLate;  // who is late has not begun what is waited for
  });
  if (found == workers_.end()) found = std::find_if(workers_.begin(), workers_.end(), stands_there);
  PACELINE_ASSERT(found != workers_.end(), "somebody stands at the min clock");
  return id(Rank(static_cast<std::uint32_t>(found - workers_.begin())));
}

Clock Engine::clock_of(WorkerId worker) const {
  PACELINE_ASSERT(config_.cluster.contains(worker), "no worker " + to_string(worker));
  return at(config_.cluster.rank_of(worker)).clock;
}

std::int64_t Engine::iterations_undone() const {
  if (!finished_ || stop_reason_) return 0;
  // A clock of an even share with backup workers waits for another gradient in the place of each skipped one.
  const bool replaced = config_.policy.kind == PolicyKind::kBackup && config_.share == Share::kEven;
  const std::int64_t done = iterations_applied() + (replaced ? 0 : iterations_skipped());
  return std::max<std::int64_t>(0, config_.total_iterations - done);
}

bool Engine::is_live(WorkerId worker) const {
  return config_.cluster.contains(worker) && live(at(config_.cluster.rank_of(worker)));
}

bool Engine::is_held(WorkerId worker) const {
  return config_.cluster.contains(worker) && at(config_.cluster.rank_of(worker)).phase == Phase::kHeld;
}

std::optional<Engine::Iteration> Engine::iteration_of(WorkerId worker) const {
  PACELINE_ASSERT(config_.cluster.contains(worker), "no worker " + to_string(worker));
  const Rank rank = config_.cluster.rank_of(worker);
  const Worker& w = at(rank);
  if (!in_iteration(w)) return std::nullopt;
  const bool next = granted_ahead(rank) && !ahead_[rank.value].running.reported();
  return Iteration{stamp_of(w), w.running.reported(), w.running.lacking(), w.running.reported() && next};
}

bool Engine::awaits_report(WorkerId worker, Clock clock) const {
  PACELINE_ASSERT(config_.cluster.contains(worker), "no worker " + to_string(worker));
  const Rank rank = config_.cluster.rank_of(worker);
  const Worker& w = at(rank);
  if (granted_ahead(rank) && clock == w.clock.next()) return !ahead_[rank.value].running.reported();
  return in_iteration(w) && clock == stamp_of(w) && !w.running.reported();
}

Clock Engine::min_clock() const { return clocks_.empty() ? Clock(version_.value) : clocks_.min_clock(); }

std::size_t Engine::state_size() const {
  return workers_.size() + ahead_.size() + clocks_.span() + held_.size() + gradients_.clocks() +
         lpr_.open_windows() + share_.size() + batches_.clocks() + policy_->state_size();
}

}  // namespace paceline::sync
