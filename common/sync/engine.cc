// The Engine's path of one message: events (top), completion, versions (bottom). Who takes part, and how a run
// begins, is in engine_membership.cc.
#include "common/sync/engine.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "common/assert.h"

namespace paceline::sync {

Engine::Engine(EngineConfig config)
    : run_(std::make_unique<EngineParts>(std::move(config))),
      updates_(std::make_unique<UpdateSequence>(*run_)),
      grants_(std::make_unique<Grants>(*run_, *updates_)),
      gathering_(run_->config.nodes_at_start.value_or(run_->config.cluster.nodes)),
      skips_(run_->config.skips_max, run_->config.total_iterations) {}

void Engine::step(const Event& event, Ticks now, std::vector<Action>& actions) {
  PACELINE_ASSERT(now >= run_->step.now, "time went back");
  run_->step = {now, &actions};
  Status status = handle(event);
  if (status.is_ok()) {
    // Also after what changes nothing, a Tick say: propagate() is idempotent, and the state settled after each event.
    propagate();
  } else {
    Reject reject{std::nullopt, std::move(status)};
    std::visit(
        [&](const auto& e) {
          if constexpr (requires { e.worker; }) reject.worker = e.worker;
        },
        event);
    run_->step.emit(std::move(reject));
  }
  run_->step.actions = nullptr;
}

Status Engine::handle(const Event& event) {
  if (const auto* arrived = std::get_if<GradientArrived>(&event)) {
    PACELINE_RETURN_IF_ERROR(run_->workers.add(*arrived));
    take_message(run_->workers.rank_of(arrived->worker), arrived->clock);
  } else if (const auto* report = std::get_if<StepReported>(&event)) {
    PACELINE_RETURN_IF_ERROR(
        run_->workers.add(*report, updates_->version(), updates_->revision(), run_->step.now));
    take_message(run_->workers.rank_of(report->worker), report->clock);
  } else if (const auto* joined = std::get_if<Joined>(&event)) {
    return join(joined->worker);
  } else if (const auto* lost = std::get_if<Lost>(&event)) {
    return lose(lost->node);
  } else if (const auto* stop = std::get_if<StopRequested>(&event)) {
    grants_->stop(stop->reason);
  } else if (std::holds_alternative<QuiesceRequested>(event)) {
    return grants_->quiesce();
  } else if (std::holds_alternative<QuiesceEnded>(event)) {
    return grants_->end_quiesce();
  } else {
    grants_->announce();
  }
  return Status::ok();
}

// An accepted message about the iteration stamped `clock` that `rank` is in, or was granted ahead: did it fail,
// is it complete? After one that was waited for the next may be, too.
void Engine::take_message(Rank rank, Clock clock) {
  const WorkerEntry& w = run_->workers[rank];
  if (w.phase == WorkerPhase::kLate) {
    // What it holds counts for nothing, finite or not; it goes on where the others are.
    if (w.running.complete()) grants_->ask(rank);
    return;
  }
  const std::string& fault = run_->workers.iteration(rank, clock).fault();
  if (!fault.empty() && run_->config.on_nan == OnNan::kStop) {
    grants_->fail("worker " + to_string(run_->workers.id(rank)) + " at clock " + to_string(clock) +
                  ": not finite: " + fault);
  }
  while (w.phase == WorkerPhase::kRunning && w.running.complete()) {
    const RunningIteration& running = w.running;
    if (skips_.add(!running.has_gradient())) {
      grants_->fail(std::to_string(skips_.skipped()) + " of the last " + std::to_string(skips_.window()) +
                    " gradients were skipped (train.on_nan: skip), more than train.skips_max allows" +
                    (running.fault().empty() ? "" : "; the last: not finite: " + running.fault()));
    }
    if (running.has_gradient()) {
      const Seen seen = w.held ? Seen::kWithExchange : Seen::kAlone;
      run_->batches.observe(rank, running.weight(), run_->step.now - w.since, seen);
    }
    complete(rank);
    advance_version();
    grants_->go_on(rank);
  }
}

// The clock of `rank` moves by one.
void Engine::complete(Rank rank) {
  WorkerEntry& w = run_->workers[rank];
  updates_->add(rank);
  w.starts_over = false;
  run_->clocks.advance(w.clock);
  w.clock = w.clock.next();
  run_->policy->on_clock(rank, w.clock, run_->step.now, run_->clocks);
  highest_ = std::max(highest_, w.clock);
  max_clock_gap_ = std::max(max_clock_gap_, run_->clocks.gap());
}

// Backup: with enough gradients the oldest open clock closes, whoever has not completed it. That worker's
// clock moves all the same, so that the version can follow and nobody waits for it: from here on it is late,
// until all of what it was computing has come. One that was late before has not begun this clock, and has
// nothing of it to drop.
void Engine::close_without_late() {
  if (run_->per_clock == run_->workers.size() || run_->clocks.empty()) return;
  const Clock closing(updates_->version().value);
  if (run_->clocks.min_clock() > closing) return;
  const std::int64_t used_up = updates_->revision().value + updates_->skipped();
  const std::int64_t due = run_->share.due(closing, used_up);
  if (due <= 0 || updates_->oldest_count() < due) return;  // after the run's end nothing is due
  for (std::uint32_t r = 0; r < run_->workers.size(); ++r) {
    WorkerEntry& w = run_->workers[Rank(r)];
    const WorkerId id = run_->workers.id(Rank(r));
    if (!w.live() || w.clock != closing) continue;
    PACELINE_ASSERT(w.in_iteration(), "worker " + to_string(id) + " is held at a clock that is open");
    if (w.phase == WorkerPhase::kRunning) {
      w.phase = WorkerPhase::kLate;
      w.needed = closing;
      ++dropped_;
      run_->share.give_back(w.running.iteration());
      run_->step.emit(Discard{id, closing});
    }
    updates_->add_late(SkippedIteration{id, closing});
    run_->clocks.advance(w.clock);
    w.clock = w.clock.next();
  }
  highest_ = std::max(highest_, closing.next());
}

// The version follows the min clock; with nobody live it follows what was reached, so that everything held is
// applied. Eager nothing is held, and the fastest may be far ahead: of a run that is to be gone on with the version
// stays where the slowest was at the stop, or who went last, but that what was applied since has one of its own.
void Engine::advance_version() {
  close_without_late();
  const auto version_due = [this] {
    const bool nobody = run_->clocks.empty();
    const bool is_done = updates_->iterations() >= run_->config.total_iterations;
    if (nobody && (is_done || updates_->apply_mode() == ApplyMode::kVersioned)) return highest_;
    const Clock version(updates_->version().value);
    if (nobody) return updates_->is_beyond_version() ? version.next() : version;
    const bool stays = run_->halt.stopping() && updates_->apply_mode() == ApplyMode::kEager;
    return stays ? version : run_->clocks.min_clock();
  };
  const Version before = updates_->version();
  const Clock target = version_due();
  if (updates_->advance(target)) grants_->requeue_all();
  if (updates_->version() == before) return;
  run_->batches.forget_below(target);
  run_->share.forget_below(target);
}

// Carries every consequence through: versions, then grants, until nothing more follows.
void Engine::propagate() {
  if (!run_->started || run_->finished) return;
  do {
    advance_version();
  } while (!run_->clocks.empty() && grants_->release());
  const auto in_iteration = [](const WorkerEntry& w) { return w.in_iteration(); };
  if (run_->clocks.empty()) {
    run_->finished = true;
    run_->step.emit(AllFinished{grants_->end_reason(), updates_->version(), updates_->revision()});
  } else if (run_->halt.quiescing() &&
             std::none_of(run_->workers.begin(), run_->workers.end(), in_iteration) &&
             run_->halt.take_quiesced()) {
    run_->step.emit(Quiesced{updates_->version(), updates_->revision()});
  }
}

}  // namespace paceline::sync
