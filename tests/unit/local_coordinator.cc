#include "tests/unit/local_coordinator.h"

#include <utility>
#include <variant>

#include "common/config/engine_config.h"
#include "common/params/rates.h"

namespace paceline {

LocalCoordinator::LocalCoordinator(const RunConfig& config, LocalExchange& exchange, Ticks (*now)())
    : config_(config),
      exchange_(exchange),
      now_(now),
      mailboxes_(config.cluster.threads_per_node),
      engine_(engine_config(config)) {
  exchange_.on_arrival([this](WorkerId worker, Clock clock, std::int64_t samples, const std::string& fault) {
    step(sync::GradientArrived{kAuthority, worker, clock, samples, fault});
  });
  for (std::uint32_t t = 0; t < config.cluster.threads_per_node; ++t) {
    step(sync::Joined{WorkerId(NodeId(0), t)});
  }
}

Result<Instruction> LocalCoordinator::next_instruction(std::uint32_t thread) {
  return mailboxes_.take(thread);
}

void LocalCoordinator::report(RoundReport report) {
  step(sync::StepReported{report.worker, report.clock, report.metric, report.computed_version,
                          report.computed_revision, report.skipped, std::move(report.fault),
                          report.own_updates});
}

std::optional<GrantHold> LocalCoordinator::held(std::uint32_t thread) const {
  const std::lock_guard lock(mutex_);
  const auto held = engine_.held_now(WorkerId(NodeId(0), thread), now_());
  if (!held) return std::nullopt;
  return GrantHold{held->clock, held->lead, held->waits_for, held->threshold, held->held};
}

void LocalCoordinator::close(const Status& why) {
  mailboxes_.close(why);
  exchange_.close(why);
  const std::lock_guard lock(mutex_);
  if (!ended_) ended_ = why;
}

std::optional<Status> LocalCoordinator::ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

void LocalCoordinator::step(const sync::Event& event) {
  const std::lock_guard lock(mutex_);
  std::vector<sync::Action> actions;
  engine_.step(event, now_(), actions);
  for (const sync::Action& action : actions) {
    std::visit([this](const auto& a) { carry_out(a); }, action);
  }
}

void LocalCoordinator::carry_out(const sync::Apply& action) {
  exchange_.apply(action, applied_rate(config_, action, std::exchange(decided_, action.version_after)));
}

void LocalCoordinator::carry_out(const sync::Grant& action) {
  const LocalRate rate = local_rate(config_, action);
  put(action.worker.thread, Granted{step::grant_of(action, rate.learning_rate, rate.scale), now_()});
}

void LocalCoordinator::carry_out(const sync::FinishWorker& action) {
  put(action.worker.thread, Finished{action.reason, action.held, now_()});
}

void LocalCoordinator::carry_out(const sync::Discard& action) {
  exchange_.discard(action.worker, action.clock);
}

void LocalCoordinator::carry_out(const sync::RunFailed& action) { failed_ = action.status; }

void LocalCoordinator::carry_out(const sync::AllFinished&) {
  if (!ended_) ended_ = failed_;
}

// A thread has reported what it was not granted: the caller's fault, and nobody can go on.
void LocalCoordinator::carry_out(const sync::Reject& action) {
  mailboxes_.close(action.status);
  exchange_.close(action.status);
  if (!ended_) ended_ = action.status;
}

void LocalCoordinator::put(std::uint32_t thread, Instruction instruction) {
  const Status there = mailboxes_.put(thread, std::move(instruction));
  PACELINE_ASSERT(there.is_ok(), there.message());
}

}  // namespace paceline
