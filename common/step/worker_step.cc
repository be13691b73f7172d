#include "common/step/worker_step.h"

#include <string>
#include <utility>

#include "common/assert.h"

namespace paceline::step {

Status WorkerStep::step(const Event& event, std::vector<Action>& actions) {
  return std::visit([&](const auto& e) { return on(e, actions); }, event);
}

void WorkerStep::expect(Expects now, Expects next) {
  PACELINE_ASSERT(expects_ == now, "worker " + to_string(grant_.worker) + " at clock " +
                                       to_string(grant_.clock) + ": event of state " +
                                       std::to_string(static_cast<int>(now)) + ", expected one of state " +
                                       std::to_string(static_cast<int>(expects_)));
  expects_ = next;
}

cache::FreshnessRules WorkerStep::freshness() const {
  return {grant_.apply, rules_.refresh_clocks, rules_.pulls_before_push, rules_.hidden};
}

Status WorkerStep::on(const Granted& event, std::vector<Action>& actions) {
  if (begun_ && event.grant.clock <= grant_.clock) {
    return invalid_argument("worker " + to_string(event.grant.worker) + ": granted clock " +
                            to_string(event.grant.clock) + ", expected one above " + to_string(grant_.clock));
  }
  PACELINE_ASSERT(expects_ == Expects::kInstruction && !grant_waits_,
                  "worker " + to_string(grant_.worker) + " is granted in the middle of a round");
  grant_ = event.grant;
  granted_at_ = event.arrived;
  if (installs_early_ && !early_) {
    grant_waits_ = true;
    return Status::ok();
  }
  read(event.now, actions);
  return Status::ok();
}

// Nobody will compute with what was to be installed early.
Status WorkerStep::on(const Finished&, std::vector<Action>&) {
  PACELINE_ASSERT(!grant_waits_,
                  "worker " + to_string(grant_.worker) + " has a grant, and nothing is to follow");
  expect(Expects::kInstruction, Expects::kNothing);
  return Status::ok();
}

Status WorkerStep::on(const InstalledEarly& event, std::vector<Action>& actions) {
  expect(Expects::kInstruction, Expects::kInstruction);
  PACELINE_ASSERT(installs_early_ && !early_, "nothing is to be installed early");
  early_ = {event.installed, event.done};
  installed_anything_ = event.anything;
  if (std::exchange(grant_waits_, false)) read(event.now, actions);
  return Status::ok();
}

// Waiting for servers, here or before, is the end of the exchange that the last round began.
void WorkerStep::read(const View& now, std::vector<Action>& actions) {
  ++reads_;
  const cache::PullWithPush pull = !pulled_             ? cache::PullWithPush::kNone
                                   : now.pull_installed ? cache::PullWithPush::kInstalled
                                                        : cache::PullWithPush::kPending;
  const cache::ReadRequest request{grant_.clock, grant_.min_version, now.newest_known.version,
                                   now.newest_known.revision, pull};
  const cache::ReadDecision decision = cache::decide_read(freshness(), request, now.thread, now.process);
  const bool asks = decision.source == cache::ReadSource::kServer;
  if (asks || (early_ && early_->installed > granted_at_)) ++server_reads_;
  waited_.reset();
  if (asks) {
    expect(Expects::kInstruction, Expects::kArrived);
    const bool comes = pull == cache::PullWithPush::kPending &&
                       cache::serves(*pulled_, decision.min_version, now.newest_known.version);
    actions.push_back(AwaitParameters{comes, decision.min_version});
    return;
  }
  if (installed_after_grant()) waited_ = early_->done - granted_at_;
  const bool refresh = decision.source == cache::ReadSource::kProcessCache;
  // What was installed early is what it computes with.
  make_current(refresh || installed_anything_, actions);
}

Status WorkerStep::on(const Arrived& event, std::vector<Action>& actions) {
  PACELINE_ASSERT(expects_ == Expects::kArrived, "parameters come that nobody waits for");
  // Until the thread had the last of them; nothing, where they came before the grant.
  waited_ = (event.installed < granted_at_ ? event.installed : event.done) - granted_at_;
  make_current(true, actions);
  return Status::ok();
}

void WorkerStep::make_current(bool refresh, std::vector<Action>& actions) {
  expects_ = Expects::kCurrent;
  actions.push_back(MakeCurrent{refresh, !std::exchange(begun_, true), waited_});
}

Status WorkerStep::on(const ParametersCurrent&, std::vector<Action>& actions) {
  expect(Expects::kCurrent, Expects::kBatch);
  local_step_ = fragments_sent_ = 0;
  actions.push_back(LoadBatch{local_step_});
  return Status::ok();
}

Status WorkerStep::on(const BatchLoaded& event, std::vector<Action>& actions) {
  expect(Expects::kBatch, Expects::kGradient);
  const cache::PullPlan plan = cache::prefetch(grant_.clock, grant_.threshold, event.now.newest_known.version,
                                               event.now.thread, event.now.process);
  // Once in a round; fragments have places of their own.
  if (plan.send && local_step_ == 0 && rules_.fragments == 1)
    actions.push_back(Pull{PullWhen::kPrefetch, plan.min_version});
  actions.push_back(Compute{local_step_});
  return Status::ok();
}

Status WorkerStep::on(const GradientComputed& event, std::vector<Action>& actions) {
  const std::int64_t steps = local_steps_of(grant_.batch, rules_.mini_batch);
  if (event.finite && !event.time_is_up && local_step_ + 1 < steps) {
    expect(Expects::kGradient, Expects::kBatch);
    send_fragments(steps, actions);
    pull_fragments(steps, actions);
    actions.push_back(LoadBatch{++local_step_});
    return Status::ok();
  }
  expect(Expects::kGradient, Expects::kChecked);
  pulled_.reset();
  early_.reset();
  installs_early_ = installed_anything_ = false;
  const cache::PullWithPushPlan plan =
      cache::pull_with_push(freshness(), grant_.clock, grant_.threshold, event.now.thread, event.now.process);
  if (plan.before_push) pull(PullWhen::kBeforePush, plan, actions);
  actions.push_back(CheckGradient{});
  return Status::ok();
}

// Those whose place is after the local step that is done.
void WorkerStep::send_fragments(std::int64_t steps, std::vector<Action>& actions) {
  const std::int64_t fragments = grant_.iteration < rules_.whole_from ? rules_.fragments : 1;
  while (fragments_sent_ + 1 < fragments &&
         fragment_place(fragments_sent_, fragments, steps) <= local_step_ + 1) {
    actions.push_back(SendFragment{fragments_sent_++});
  }
}

void WorkerStep::pull_fragments(std::int64_t steps, std::vector<Action>& actions) {
  if (!pulled_) return;
  while (fragments_pulled_ < rules_.fragments &&
         fragment_pull_place(fragments_pulled_, rules_.fragments, steps) <= local_step_ + 1) {
    actions.push_back(Pull{PullWhen::kAfterPush, *pulled_, false, fragments_pulled_++});
  }
}

Status WorkerStep::on(const GradientChecked& event, std::vector<Action>& actions) {
  expect(Expects::kChecked, Expects::kApplied);
  if (rules_.applies_locally && event.finite) {
    actions.push_back(ApplyLocally{});
  } else {
    send(event.finite, actions);
  }
  return Status::ok();
}

Status WorkerStep::on(const AppliedLocally&, std::vector<Action>& actions) {
  send(true, actions);
  return Status::ok();
}

// A gradient that is not finite does not leave, or is taken back; its clock closes without it.
void WorkerStep::send(bool finite, std::vector<Action>& actions) {
  expect(Expects::kApplied, Expects::kSent);
  ++(finite ? contributed_ : skipped_);
  if (finite) {
    actions.push_back(Contribute{});
  } else {
    actions.push_back(Withdraw{});
  }
  actions.push_back(Report{!finite});
}

Status WorkerStep::on(const Sent& event, std::vector<Action>& actions) {
  expect(Expects::kSent, Expects::kInstruction);
  if (!pulled_) {
    const cache::PullWithPushPlan plan = cache::pull_with_push(freshness(), grant_.clock, grant_.threshold,
                                                               event.now.thread, event.now.process);
    if (plan.send) pull(PullWhen::kAfterPush, plan, actions);
  }
  if (installs_early_) actions.push_back(InstallEarly{});
  actions.push_back(AwaitInstruction{});
  return Status::ok();
}

void WorkerStep::pull(PullWhen when, const cache::PullWithPushPlan& plan, std::vector<Action>& actions) {
  pulled_ = plan.min_version;
  installs_early_ = plan.answered_at_once;
  fragments_pulled_ = 1;
  actions.push_back(Pull{when, plan.min_version, installs_early_});
  if (grant_.threshold > Threshold(0)) return;
  // The next round begins with all of it.
  while (fragments_pulled_ < rules_.fragments)
    actions.push_back(Pull{when, plan.min_version, false, fragments_pulled_++});
}

}  // namespace paceline::step
