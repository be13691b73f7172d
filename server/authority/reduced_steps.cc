#include "server/authority/reduced_steps.h"

#include <algorithm>
#include <string>
#include <utility>

#include "server/authority/node_parameters.h"

namespace paceline::server {

ReducedSteps::ReducedSteps(const RunConfig& config, RunCore& core, const RunMembers& members,
                           const RunOutcome& state, MeshFormations& formations, StepReports& reports,
                           RunRecord& record, RunOutbox& outbox, const Log& log)
    : config_(config),
      cluster_(config.cluster.cluster()),
      core_(core),
      members_(members),
      state_(state),
      formations_(formations),
      reports_(reports),
      record_(record),
      outbox_(outbox),
      log_(log),
      stepped_(cluster_.workers()) {}

bool ReducedSteps::go_on() const {
  return nodes_hold_parameters(config_) && config_.exchange.on_loss == OnLoss::kGoOn && has_stepped_ &&
         state_.training();
}

bool ReducedSteps::await(const wire::StepReport& report) const {
  const sync::Engine& engine = core_.engine();
  const bool skips = config_.train.on_nan == OnNan::kSkip;  // agree_on_skip()
  return nodes_hold_parameters(config_) && state_.training() &&
         (skips || (!report.skipped && report.fault.empty())) &&
         report.clock.value == engine.version().value && engine.is_live(report.worker);
}

void ReducedSteps::add(const wire::StepReport& report, Ticks now) {
  stepped_[cluster_.rank_of(report.worker).value] =
      Stepped{report, now, now + core_.engine().config().held_notice_after};
}

bool ReducedSteps::takes_part(WorkerId worker) const {
  return members_[worker.node] == RunMembers::NodeState::kJoined && core_.engine().is_live(worker);
}

void ReducedSteps::send_held_notices(Ticks now) {
  if (!nodes_hold_parameters(config_) || !state_.training()) return;
  std::optional<WorkerId> waits_for;
  for (std::uint32_t r = 0; r < cluster_.workers() && !waits_for; ++r) {
    const WorkerId worker = cluster_.worker_at(Rank(r));
    if (!stepped_[r] && takes_part(worker)) waits_for = worker;
  }
  if (!waits_for) return;
  for (std::optional<Stepped>& stepped : stepped_) {
    if (!stepped || now < stepped->next_notice) continue;
    stepped->next_notice = now + core_.engine().config().held_notice_every;
    const WorkerId worker = stepped->report.worker;
    outbox_.to_node(worker.node, wire::HeldNotice{worker, stepped->report.clock.next(), Staleness(1),
                                                  Threshold(0), *waits_for, now - stepped->since});
  }
}

Status ReducedSteps::go_on_without(NodeId node, const std::string& why, Ticks now) {
  lost_.push_back(node);
  PACELINE_RETURN_IF_ERROR(take(now));
  // After the last step there is no next formation to wait for.
  if (!state_.training()) return Status::ok();
  formations_.lost(node, why, now);
  return formations_.form(core_.engine().version(), now);
}

// Whether the step is left out, which all do or none: but who was given the version by another does not know that it is
// no step, and reports a gradient.
bool ReducedSteps::agree_on_skip(std::vector<wire::StepReport>& steps) {
  const auto left_out = std::ranges::find_if(steps, &wire::StepReport::skipped);
  if (left_out == steps.end()) return false;
  const std::string fault = left_out->fault;
  for (wire::StepReport& step : steps) {
    step.skipped = true;
    if (step.fault.empty()) step.fault = fault;
  }
  return true;
}

Status ReducedSteps::take(Ticks now) {
  std::vector<wire::StepReport> steps;
  for (std::uint32_t r = 0; r < cluster_.workers(); ++r) {
    if (!takes_part(cluster_.worker_at(Rank(r)))) continue;
    if (!stepped_[r]) return Status::ok();
    steps.push_back(stepped_[r]->report);
  }
  const Version before = core_.engine().version();
  const bool left_out = agree_on_skip(steps);
  for (const NodeId node : std::exchange(lost_, {})) {
    if (!left_out) PACELINE_RETURN_IF_ERROR(take_last_step(node, now));
    core_.step_own(sync::Lost{node}, now);
  }
  if (!state_.training()) return Status::ok();
  stepped_.assign(stepped_.size(), std::nullopt);
  stop_short_of_workers(static_cast<std::int64_t>(steps.size()), now);
  for (const wire::StepReport& report : steps) {
    const auto taken = reports_.take(report, now);
    // Its gradient is in everybody's parameters.
    if (!taken.is_ok() && state_.training()) return taken.status();
    if (taken.is_ok() && *taken == StepReports::Taken::kRunFailed) return state_.result();
  }
  if (core_.engine().version() > before) {
    has_stepped_ = true;
    formations_.stepped();
  }
  return Status::ok();
}

// What it has given to the sum, if that is the one that was made.
Status ReducedSteps::take_last_step(NodeId node, Ticks now) {
  if (!formations_.is_in_sum(node)) return Status::ok();
  const sync::Engine& engine = core_.engine();
  for (std::uint32_t thread = 0; thread < config_.cluster.threads_per_node; ++thread) {
    const WorkerId worker(node, thread);
    const auto& stepped = stepped_[cluster_.rank_of(worker).value];
    const auto iteration = engine.iteration_of(worker);
    if (!iteration || iteration->clock.value != engine.version().value) continue;
    Status taken;
    if (stepped) {
      const auto reported = reports_.take(stepped->report, now);
      if (reported.is_ok() && *reported == StepReports::Taken::kRunFailed) return state_.result();
      taken = reported.status();
    } else {  // as many samples as were granted: a sum is of no others
      taken = core_.step(
          sync::GradientArrived{kAuthority, worker, iteration->clock, engine.config().batch_size, ""}, now);
    }
    if (!taken.is_ok())
      log_.warn("what lost node " + to_string(node) + " gave to a step: " + taken.message());
  }
  return Status::ok();
}

// Every worker takes part in every step. What a lost node has left undone need not make whole ones.
void ReducedSteps::stop_short_of_workers(std::int64_t workers, Ticks now) {
  const sync::Engine& engine = core_.engine();
  if (engine.stopping()) return;
  const std::int64_t over = engine.revision().value + engine.iterations_skipped();
  const std::int64_t left = engine.config().total_iterations - over - workers;
  if (left <= 0 || left >= workers) return;
  record_.undone(left);
  core_.step_own(sync::StopRequested{std::to_string(left) + " iterations are left for " +
                                     std::to_string(workers) + " workers"},
                 now);
}

}  // namespace paceline::server
