#include "common/sync/update_sequence.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace paceline::sync {

namespace {
constexpr std::int64_t kStalenessKept = 0xFFFFFFFF;
}  // namespace

UpdateSequence::UpdateSequence(EngineParts& run)
    : run_(run), apply_(run.config.apply), lpr_(run.config.lpr_metric, window_clocks_of(run.config)) {}

void UpdateSequence::save(EngineState& state) const {
  state.version = version_;
  state.revision = revision_;
  state.skipped = skipped_ - waiting_.skipped();
  state.lpr = lpr_.state();
}

void UpdateSequence::resume(const EngineState& state) {
  version_ = begins_ = state.version;
  // Of this version there are no parameters any more with less than that.
  revision_ = version_begins_ = state.revision;
  waiting_ = PendingGradients(Clock(version_.value));
  skipped_ = state.skipped;
  version_begins_iterations_ = iterations();
  lpr_.resume(version_, state.lpr);
  apply_ = apply_of_stage();
}

void UpdateSequence::add(Rank rank) {
  const WorkerEntry& w = run_.workers[rank];
  const RunningIteration& running = w.running;
  const bool usable = running.has_gradient();
  if (!usable) {
    if (running.whole()) run_.step.emit(Discard{run_.workers.id(rank), w.clock});
    ++skipped_;
  }
  // A metric counts for its window with the gradient: at once, or with its clock.
  const bool versioned = apply_ == ApplyMode::kVersioned;
  Metric measured = usable && running.reported() ? running.metric() : Metric{};
  if (measured.samples > 0 && !versioned) {
    lpr_.add(w.clock, std::exchange(measured, {}));
  }
  if (versioned) {
    if (usable) waiting_.add(contribution_of(rank), running.iteration(), measured);
    if (!usable) waiting_.add(SkippedIteration{run_.workers.id(rank), w.clock}, running.iteration());
    return;
  }
  if (!arrived_.empty()) apply(std::exchange(arrived_, {}));  // eager: one gradient per Apply
  if (usable) arrived_.contributors.push_back(contribution_of(rank));
  if (!usable) arrived_.skipped.push_back({run_.workers.id(rank), w.clock});
}

Contributor UpdateSequence::contribution_of(Rank rank) const {
  const WorkerEntry& w = run_.workers[rank];
  const RunningIteration& running = w.running;
  return {run_.workers.id(rank),
          w.clock,
          running.weight(),
          running.computed_version(),
          running.computed_revision(),
          running.updates_known(),
          0,
          running.version_known()};
}

bool UpdateSequence::advance(Clock clock) {
  const Threshold before = run_.policy->threshold();
  bool switched = false;
  while (version_.value < clock.value) {
    ++version_.value;
    ClockContributions closed =
        apply_ == ApplyMode::kVersioned ? waiting_.take() : std::exchange(arrived_, {});
    if (closed.metric.samples > 0) lpr_.add(Clock(version_.value - 1), closed.metric);
    apply(std::move(closed));
    version_begins_ = revision_;
    version_begins_iterations_ = iterations();
    run_.step.emit(VersionAdvanced{version_});
    const std::size_t stage = run_.policy->stage();
    advance_policy();
    if (run_.policy->stage() != stage) switched = true;
  }
  if (!arrived_.empty()) apply(std::exchange(arrived_, {}));
  return switched || run_.policy->threshold() != before;
}

// The window that ends at this version, if one does, then whether another policy takes over: the window is
// reported with the threshold that is in force after both.
void UpdateSequence::advance_policy() {
  Policy& policy = *run_.policy;
  const std::size_t stage = policy.stage();
  const Threshold before = policy.threshold();
  const std::optional<WindowResult> window = lpr_.on_version(version_);
  if (window) policy.on_window(*window);
  const Threshold moved = policy.threshold();
  policy.on_version(version_, run_.step.now, run_.clocks);
  const Threshold after = policy.threshold();
  if (window) {
    run_.step.emit(WindowClosed{window->index, window->closed_at, window->loss_mean, window->accuracy,
                                window->samples, window->lpr, after});
  }
  if (moved != before) {
    run_.step.emit(ThresholdChanged{before, moved, window->lpr.value_or(0.0), version_});
  }
  if (policy.stage() == stage) return;
  const std::vector<PolicyStage>& stages = run_.config.policy.stages;
  run_.step.emit(PolicySwitched{stages[stage].policy, stages[policy.stage()].policy, moved, after, version_});
  if (apply_ == ApplyMode::kVersioned && apply_of_stage() == ApplyMode::kEager) turn_eager();
}

// From here on each gradient is applied on arrival: and so, at once, is what waited for its clock's turn, in
// clock order and each clock in worker order. After bsp nothing waits: everybody has completed the same
// clocks.
void UpdateSequence::turn_eager() {
  apply_ = ApplyMode::kEager;
  for (Clock clock(version_.value); waiting_.clocks() > 0; clock = clock.next()) {
    const ClockContributions held = waiting_.take();
    if (held.metric.samples > 0) lpr_.add(clock, held.metric);
    for (const Contributor& c : held.contributors) apply({{c}, {}, {}});
    for (const SkippedIteration& s : held.skipped) apply({{}, {s}, {}});
  }
}

ApplyMode UpdateSequence::apply_of_stage() const {
  return apply_in(run_.config.policy.stages, run_.config.apply, run_.policy->stage());
}

// There is no clock to average over where each is applied on arrival.
CombineMode UpdateSequence::combine() const {
  return apply_ == ApplyMode::kVersioned ? run_.config.combine : CombineMode::kEach;
}

void UpdateSequence::apply(ClockContributions contributions) {
  const bool mean = combine() == CombineMode::kMean;
  for (Contributor& c : contributions.contributors) {
    const std::int64_t missed =
        mean ? c.clock.value - c.version_known.value : revision_.value - c.updates_known;
    c.staleness = std::max<std::int64_t>(missed, 0);
    WorkerEntry& w = run_.workers[run_.config.cluster.rank_of(c.worker)];
    w.staleness = static_cast<std::uint32_t>(std::min(c.staleness, kStalenessKept));
    ++revision_.value;
  }
  run_.step.emit(Apply{std::move(contributions.contributors), std::move(contributions.skipped), combine(),
                       version_, revision_, apply_, run_.policy->stage()});
}

}  // namespace paceline::sync
