#include "common/trace/decision_log.h"

#include <algorithm>
#include <iterator>
#include <variant>

namespace paceline::trace {
namespace {

// Whose message it was.
std::optional<WorkerId> sender_of(const sync::Event& event) {
  if (const auto* joined = std::get_if<sync::Joined>(&event)) return joined->worker;
  if (const auto* arrived = std::get_if<sync::GradientArrived>(&event)) return arrived->worker;
  if (const auto* report = std::get_if<sync::StepReported>(&event)) return report->worker;
  return std::nullopt;
}

bool is_of_an_iteration(DecisionKind kind) {
  return kind == DecisionKind::kReported || kind == DecisionKind::kHeld || kind == DecisionKind::kGranted ||
         kind == DecisionKind::kApplied;
}

bool is_refused(const std::vector<sync::Action>& actions) {
  return std::any_of(actions.begin(), actions.end(),
                     [](const auto& a) { return std::holds_alternative<sync::Reject>(a); });
}

}  // namespace

// What one step of the core has been about, for the grants among its actions.
struct DecisionLog::Seen {
  std::optional<WorkerId> sender;
  std::optional<NodeId> lost;
  std::optional<Threshold> threshold_before;  // where it has changed

  // Of a grant that was held until now. With its lead it may have been allowed before the threshold rose:
  // then the slowest has moved.
  void release(const sync::Grant& grant, Decision& decision) const {
    if (grant.held.count() <= 0) return;
    const bool would_wait = threshold_before && !threshold_before->allows(grant.clock - grant.min_clock);
    if (would_wait) {
      decision.release = Release::kThreshold;
    } else if (sender && *sender != grant.worker) {
      decision.release = Release::kWorker;
      decision.by = sender;
    } else if (lost) {
      decision.release = Release::kLoss;
      decision.by = WorkerId(*lost, 0);
    } else {
      decision.release = Release::kOther;
    }
  }
};

void DecisionLog::add(Decision decision, Ticks now) {
  last_ = std::max(last_, now);
  decision.at = last_;
  is_of_an_iteration(decision.kind) ? kept_.add(decision) : rare_.add(decision);
}

void DecisionLog::held(const sync::HeldNotice& held, Ticks now) {
  Decision hold{.kind = DecisionKind::kHeld, .worker = held.worker, .clock = held.clock};
  hold.min_clock = Clock(held.clock.value - held.lead.value);
  hold.threshold = held.threshold;
  hold.by = held.waits_for;
  hold.lpr = lpr_;
  add(hold, now);
}

void DecisionLog::stepped(const sync::Event& event, const std::vector<sync::Action>& actions,
                          const sync::Engine& engine, Ticks now) {
  if (is_refused(actions)) return;
  Seen seen{sender_of(event), std::nullopt, std::nullopt};
  if (const auto* report = std::get_if<sync::StepReported>(&event)) {
    add({.kind = DecisionKind::kReported, .worker = report->worker, .clock = report->clock}, now);
  } else if (const auto* joined = std::get_if<sync::Joined>(&event)) {
    add({.kind = DecisionKind::kJoined, .worker = joined->worker}, now);
  } else if (const auto* lost = std::get_if<sync::Lost>(&event)) {
    seen.lost = lost->node;
    add({.kind = DecisionKind::kLost, .node = lost->node}, now);
  } else if (std::holds_alternative<sync::StopRequested>(event)) {
    add({.kind = DecisionKind::kStopping}, now);
  }
  for (const sync::Action& action : actions) {
    std::visit([&](const auto& a) { took(a, engine, seen, now); }, action);
  }
  // After what follows from its own step: who is held now has asked just now.
  if (!seen.sender) return;
  if (const auto hold = engine.held_now(*seen.sender, now)) held(*hold, now);
}

void DecisionLog::took(const sync::Grant& grant, const sync::Engine&, Seen& seen, Ticks now) {
  if (!first_grant_) first_grant_ = now;
  Decision granted{.kind = DecisionKind::kGranted, .worker = grant.worker, .clock = grant.clock};
  granted.min_clock = grant.min_clock;
  granted.threshold = grant.threshold;
  granted.version = grant.min_version;
  granted.held = grant.held;
  granted.lpr = lpr_;
  seen.release(grant, granted);
  add(granted, now);
}

void DecisionLog::took(const sync::Apply& apply, const sync::Engine&, Seen&, Ticks now) {
  Decision applied{.kind = DecisionKind::kApplied};
  applied.version = apply.version_after;
  applied.revision = apply.revision_after;
  applied.gradients = static_cast<std::int64_t>(apply.contributors.size());
  add(applied, now);
}

void DecisionLog::took(const sync::WindowClosed& window, const sync::Engine&, Seen&, Ticks now) {
  if (window.lpr) lpr_ = window.lpr;
  Decision closed{.kind = DecisionKind::kWindow, .threshold = window.threshold, .lpr = window.lpr};
  closed.version = window.version;
  add(closed, now);
}

void DecisionLog::took(const sync::ThresholdChanged& changed, const sync::Engine&, Seen& seen, Ticks now) {
  if (changed.to > changed.from) seen.threshold_before = changed.from;
  Decision threshold{.kind = DecisionKind::kThreshold, .threshold = changed.to, .lpr = changed.lpr};
  threshold.version = changed.version;
  add(threshold, now);
}

void DecisionLog::took(const sync::PolicySwitched& policy, const sync::Engine&, Seen& seen, Ticks now) {
  if (policy.threshold_to > policy.threshold_from) seen.threshold_before = policy.threshold_from;
  Decision switched{.kind = DecisionKind::kPolicy, .threshold = policy.threshold_to};
  switched.version = policy.version;
  add(switched, now);
}

void DecisionLog::took(const sync::FinishWorker& finish, const sync::Engine& engine, Seen&, Ticks now) {
  Decision finished{.kind = DecisionKind::kFinished, .worker = finish.worker};
  finished.clock = engine.clock_of(finish.worker);
  finished.held = finish.held;
  add(finished, now);
}

void DecisionLog::took(const sync::RunFailed&, const sync::Engine&, Seen&, Ticks now) {
  add({.kind = DecisionKind::kStopping}, now);
}

void DecisionLog::evaluation(NodeId node, Version version, Ticks now) {
  Decision asked{.kind = DecisionKind::kEvaluation, .node = node};
  asked.version = version;
  add(asked, now);
}

void DecisionLog::evaluated(Version version, Ticks now) {
  Decision done{.kind = DecisionKind::kEvaluated};
  done.version = version;
  add(done, now);
}

void DecisionLog::saving(Version version, Ticks now) {
  Decision begun{.kind = DecisionKind::kSaving};
  begun.version = saving_ = version;
  add(begun, now);
}

void DecisionLog::saved(Ticks now) {
  Decision done{.kind = DecisionKind::kSaved};
  done.version = saving_;
  add(done, now);
}

void DecisionLog::parted(std::optional<NodeId> lost, Ticks now) {
  add({.kind = DecisionKind::kParted, .node = lost}, now);
}

void DecisionLog::formed(Version version, Ticks now) {
  Decision formed{.kind = DecisionKind::kFormed};
  formed.version = version;
  add(formed, now);
}

void DecisionLog::add_to(Trace& trace) const {
  const std::vector<Decision> kept = kept_.in_order();
  const std::vector<Decision> rare = rare_.in_order();
  trace.decisions.reserve(kept.size() + rare.size());
  std::merge(rare.begin(), rare.end(), kept.begin(), kept.end(), std::back_inserter(trace.decisions),
             [](const Decision& a, const Decision& b) { return a.at < b.at; });
  trace.decisions_left_out = kept_.left_out() + rare_.left_out();
  trace.first_grant = first_grant_;
}

}  // namespace paceline::trace
