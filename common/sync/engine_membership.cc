// The Engine: who takes part, how a run begins, and what can be asked about it (docs/SYNC.md, Who does which
// iteration).
#include <algorithm>
#include <utility>

#include "common/sync/engine.h"

namespace paceline::sync {

Status Engine::join(WorkerId worker) {
  const std::string who = "join of worker " + to_string(worker);
  const Cluster& cluster = run_->config.cluster;
  if (!cluster.contains(worker)) {
    return invalid_argument(who + ": the run has " + std::to_string(cluster.nodes) + " nodes with " +
                            std::to_string(cluster.threads_per_node) + " threads");
  }
  const Rank rank = run_->workers.rank_of(worker);
  if (run_->started || run_->finished) return come_late(rank, who);
  WorkerEntry& w = run_->workers[rank];
  if (w.phase == WorkerPhase::kJoined) return failed_precondition(who + ": it has joined before");
  w.phase = WorkerPhase::kJoined;
  if (!run_->workers.all_joined(worker.node)) return Status::ok();
  gathering_.come(worker.node);
  if (gathering_.complete()) begin();
  return Status::ok();
}

// Training begins: all who have joined ask.
void Engine::begin() {
  run_->started = true;
  run_->step.emit(Started{});
  const Clock begin(version().value);
  const auto for_all = [this](auto action) {
    for (std::uint32_t r = 0; r < run_->workers.size(); ++r) {
      if (run_->workers[Rank(r)].phase != WorkerPhase::kAbsent) action(Rank(r));
    }
  };
  for_all([&](Rank) { run_->clocks.add(begin); });
  for_all([this](Rank rank) { run_->share.join(rank); });
  for (std::uint32_t r = 0; r < run_->workers.size(); ++r) {
    if (run_->workers[Rank(r)].phase == WorkerPhase::kAbsent) run_->batches.lose(Rank(r), begin);
  }
  for_all([&](Rank rank) { run_->policy->on_clock(rank, begin, run_->step.now, run_->clocks); });
  for_all([this](Rank rank) { grants_->ask(rank); });
}

// One who was not there, or is there again, while training goes on: it begins at the min clock. A stamp names
// one gradient of a worker in the whole run, and a gradient of an old stamp may still be held, or be on its
// way to be dropped. So who comes back begins after the stamps that it had, if that is later.
Status Engine::come_late(Rank rank, const std::string& who) {
  WorkerEntry& w = run_->workers[rank];
  if (run_->finished) return failed_precondition(who + ": training is over");
  if (run_->halt.stopping()) {
    return failed_precondition(who + ": training ends: " + run_->halt.reason());
  }
  if (w.phase == WorkerPhase::kFinished) return failed_precondition(who + ": it has done its share");
  if (w.phase != WorkerPhase::kAbsent && w.phase != WorkerPhase::kGone) {
    return failed_precondition(who + ": it has joined before");
  }
  if (!workers_come_and_go(run_->config)) {
    return failed_precondition(
        who + ": training has begun, and with backup workers or batches by speed nobody comes later");
  }
  w.clock = std::max(run_->clocks.min_clock(), w.needed);
  w.running = RunningIteration(run_->config.shards);
  w.staleness = 0;
  w.fresh = w.starts_over = true;
  highest_ = std::max(highest_, w.clock);
  run_->clocks.add(w.clock);
  max_clock_gap_ = std::max(max_clock_gap_, run_->clocks.gap());
  run_->share.join(rank);
  run_->policy->on_clock(rank, w.clock, run_->step.now, run_->clocks);
  grants_->ask(rank);
  return Status::ok();
}

Status Engine::lose(NodeId node) {
  const Cluster& cluster = run_->config.cluster;
  if (node.value >= cluster.nodes) {
    return invalid_argument("loss of node " + to_string(node) + ": there is no such node");
  }
  const bool begins = !run_->started && gathering_.lose(node, run_->workers.all_joined(node));
  for (std::uint32_t thread = 0; thread < cluster.threads_per_node; ++thread) {
    depart(run_->workers.rank_of(WorkerId(node, thread)));
    // What it had whole may be the last that its clock was waiting for: the node's other threads are late
    // then.
    if (run_->started) close_without_late();
  }
  if (begins) begin();
  return Status::ok();
}

// `rank` is gone: nobody waits for it any more. What it sent whole stays, what it sent in part leaves no
// trace.
void Engine::depart(Rank rank) {
  WorkerEntry& w = run_->workers[rank];
  switch (w.phase) {
    case WorkerPhase::kAbsent:
    case WorkerPhase::kGone:
      return;
    case WorkerPhase::kJoined:  // before training began: it may come back, as another incarnation
      w.phase = WorkerPhase::kAbsent;
      return;
    case WorkerPhase::kFinished:
      w.phase = WorkerPhase::kGone;
      w.needed = w.clock;
      return;
    case WorkerPhase::kHeld:
    case WorkerPhase::kRunning:
    case WorkerPhase::kLate:  // dropped already, and given back; its clock has moved on
      break;
  }
  grants_->withdraw(rank);
  bool begun = w.phase == WorkerPhase::kRunning;
  while (begun && w.running.has_gradient()) {
    complete(rank);
    begun = run_->workers.granted_ahead(rank);
    if (begun) run_->workers.promote(rank, run_->step.now);
  }
  if (begun) {
    lost_ += grants_->abandon(rank);
  } else {
    run_->share.lose(rank, w.clock, std::nullopt);
    w.needed = w.clock;
  }
  w.phase = WorkerPhase::kGone;
  run_->batches.lose(rank, w.clock);
  run_->policy->on_departure(rank);
  run_->clocks.remove(w.clock);
}

bool Engine::is_live(WorkerId worker) const {
  return run_->config.cluster.contains(worker) && run_->workers[run_->workers.rank_of(worker)].live();
}

bool Engine::is_held(WorkerId worker) const {
  return run_->config.cluster.contains(worker) &&
         run_->workers[run_->workers.rank_of(worker)].phase == WorkerPhase::kHeld;
}

std::optional<HeldNotice> Engine::held_now(WorkerId worker, Ticks now) const {
  if (!is_held(worker)) return std::nullopt;
  return grants_->held(run_->workers.rank_of(worker), now);
}

Clock Engine::min_clock() const {
  return run_->clocks.empty() ? Clock(version().value) : run_->clocks.min_clock();
}

std::size_t Engine::state_size() const {
  return run_->workers.entries() + run_->clocks.span() + grants_->size() + updates_->size() +
         run_->share.size() + run_->batches.clocks() + run_->policy->state_size();
}

std::int64_t iterations_undone(const Engine& engine) {
  if (!engine.finished() || engine.stopping()) return 0;
  const EngineConfig& config = engine.config();
  // A clock of an even share with backup workers waits for another gradient in the place of each skipped one.
  const bool replaced = config.policy.kind == PolicyKind::kBackup && config.share == Share::kEven;
  const std::int64_t done = engine.iterations_applied() + (replaced ? 0 : engine.iterations_skipped());
  return std::max<std::int64_t>(0, config.total_iterations - done);
}

}  // namespace paceline::sync
