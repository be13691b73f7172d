// The Engine's path of one message: events (top), completion, versions, grants (bottom). Who takes part, and
// how a run begins and ends, is in engine_membership.cc.
#include "common/sync/engine.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/assert.h"

namespace paceline::sync {

namespace {

constexpr std::int64_t kStalenessKept = 0xFFFFFFFF;
constexpr Clock kNever(std::numeric_limits<std::int64_t>::max());  // no floor is

EngineConfig checked(EngineConfig config) {
  const Status status = validate(config);
  PACELINE_ASSERT(status.is_ok(), status.message());
  return config;
}

}  // namespace

Engine::Engine(EngineConfig config)
    : config_(checked(std::move(config))),
      per_clock_(gradients_per_clock(config_)),
      policy_(make_policy(config_.policy)),
      apply_(config_.apply),
      lpr_(config_.lpr_metric, window_clocks_of(config_)),
      share_(config_.share, workers_come_and_go(config_) ? Membership::kComeAndGo : Membership::kFixed,
             config_.cluster, per_clock_, config_.total_iterations),
      batches_(config_.batch_sizing, config_.cluster, config_.batch_size, config_.batch_step,
               config_.total_iterations),
      skips_(config_.skips_max, config_.total_iterations) {
  workers_.reserve(config_.cluster.workers());
  for (std::uint32_t r = 0; r < config_.cluster.workers(); ++r) workers_.emplace_back(config_.shards);
  if (!config_.grants_ahead) return;
  for (std::uint32_t r = 0; r < config_.cluster.workers(); ++r) ahead_.emplace_back(config_.shards);
}

void Engine::step(const Event& event, Ticks now, std::vector<Action>& actions) {
  PACELINE_ASSERT(now >= now_, "time went back");
  now_ = now;
  out_ = &actions;
  std::visit(
      [this](const auto& e) {
        Status status = on(e);
        if (status.is_ok()) return;
        Reject reject{std::nullopt, std::move(status)};
        if constexpr (requires { e.worker; }) reject.worker = e.worker;
        emit(std::move(reject));
      },
      event);
  out_ = nullptr;
}

// The words are put together only for what is refused: a message that is right costs no string.
Status Engine::check_running(WorkerId worker, Clock clock, const char* what) const {
  const auto who = [&] {
    return std::string(what) + " of worker " + to_string(worker) + " stamped " + to_string(clock);
  };
  if (!config_.cluster.contains(worker)) return invalid_argument(who() + ": there is no such worker");
  const Rank rank = config_.cluster.rank_of(worker);
  const Worker& w = at(rank);
  const Clock stamp = stamp_of(w);
  if (granted_ahead(rank) && clock == stamp.next()) return Status::ok();
  if (clock > stamp || (w.phase == Phase::kHeld && clock == stamp)) {
    return failed_precondition(who() + ": not granted, it is at " + to_string(stamp));
  }
  if (!in_iteration(w)) return out_of_order(who() + ": the worker has no grant");
  if (clock != stamp) return out_of_order(who() + ": expected " + to_string(stamp));
  return Status::ok();
}

Status Engine::on(const GradientArrived& event) {
  if (event.shard.value >= config_.shards) {
    return invalid_argument("gradient from shard " + to_string(event.shard) + ": there are " +
                            std::to_string(config_.shards) + " shards");
  }
  PACELINE_RETURN_IF_ERROR(check_running(event.worker, event.clock, "gradient"));
  const Rank rank = config_.cluster.rank_of(event.worker);
  Status added = iteration(rank, event.clock).add(event);
  if (!added.is_ok()) {
    return std::move(added).with_context("gradient of worker " + to_string(event.worker) + " stamped " +
                                         to_string(event.clock));
  }
  after_message(rank, event.clock);
  return Status::ok();
}

Status Engine::on(const StepReported& event) {
  PACELINE_RETURN_IF_ERROR(check_running(event.worker, event.clock, "report"));
  const Rank rank = config_.cluster.rank_of(event.worker);
  Status added = iteration(rank, event.clock).add(event, version_, revision_);
  if (!added.is_ok()) {
    return std::move(added).with_context("report of worker " + to_string(event.worker) + " stamped " +
                                         to_string(event.clock));
  }
  if (!ahead_.empty() && event.clock == at(rank).clock) ahead_[rank.value].reported = now_;
  after_message(rank, event.clock);
  return Status::ok();
}

// An accepted message about the iteration stamped `clock` that `rank` is in, or was granted ahead: did it fail,
// is it complete? Behind one that was waited for the next may be, too.
void Engine::after_message(Rank rank, Clock clock) {
  if (at(rank).phase == Phase::kLate) {
    // What it holds counts for nothing, finite or not; it goes on where the others are.
    if (at(rank).running.complete()) ask(rank);
    return settle();
  }
  const std::string& fault = iteration(rank, clock).fault();
  if (!fault.empty() && config_.on_nan == OnNan::kStop) {
    fail("worker " + to_string(id(rank)) + " at clock " + to_string(clock) + ": not finite: " + fault);
  }
  while (at(rank).phase == Phase::kRunning && at(rank).running.complete()) {
    const RunningIteration& running = at(rank).running;
    if (skips_.add(!running.has_gradient())) {
      fail(std::to_string(skips_.skipped()) + " of the last " + std::to_string(skips_.window()) +
           " iterations were skipped (train.on_nan: skip), more than train.skips_max allows" +
           (running.fault().empty() ? "" : "; the last: not finite: " + running.fault()));
    }
    if (running.has_gradient()) {
      const Seen seen = at(rank).held ? Seen::kWithExchange : Seen::kAlone;
      batches_.observe(rank, running.weight(), now_ - at(rank).since, seen);
    }
    complete(rank);
    advance_version();
    go_on(rank);
  }
  settle();
}

void Engine::fail(const std::string& reason) {
  if (std::exchange(failed_, true)) return;
  emit(RunFailed{aborted(reason)});
  stop(reason);
}

// The clock of `rank` moves by one.
void Engine::complete(Rank rank) {
  Worker& w = at(rank);
  contribute(rank);
  clocks_.advance(w.clock);
  w.clock = w.clock.next();
  policy_->on_clock(rank, w.clock, now_, clocks_);
  highest_ = std::max(highest_, w.clock);
  note_clock_gap();
}

void Engine::note_clock_gap() {
  max_clock_gap_ = std::max(max_clock_gap_, clocks_.max_clock() - clocks_.min_clock());
}

// What the completed iteration adds: a gradient, or the fact that there is none.
void Engine::contribute(Rank rank) {
  const Worker& w = at(rank);
  const RunningIteration& running = w.running;
  const bool usable = running.has_gradient();
  if (!usable) {
    if (running.whole()) emit(Discard{id(rank), w.clock});
    ++skipped_;
  }
  // A metric counts for its window with the gradient: at once, or with its clock.
  const bool versioned = apply_ == ApplyMode::kVersioned;
  Metric measured = usable && running.reported() ? running.metric() : Metric{};
  if (measured.samples > 0 && !versioned) {
    lpr_.add(w.clock, std::exchange(measured, {}));
  }
  if (versioned) {
    if (usable) gradients_.add(contribution_of(rank), running.iteration(), measured);
    if (!usable) gradients_.add(SkippedIteration{id(rank), w.clock}, running.iteration());
    return;
  }
  if (!arrived_.empty()) apply(std::exchange(arrived_, {}));  // eager: one gradient per Apply
  if (usable) arrived_.contributors.push_back(contribution_of(rank));
  if (!usable) arrived_.skipped.push_back({id(rank), w.clock});
}

Contributor Engine::contribution_of(Rank rank) const {
  const Worker& w = at(rank);
  const RunningIteration& running = w.running;
  return {id(rank),
          w.clock,
          running.weight(),
          running.computed_version(),
          running.computed_revision(),
          running.updates_known(),
          0,
          running.version_known()};
}

// Backup: with enough gradients the oldest open clock closes, whoever has not completed it. That worker's
// clock moves all the same, so that the version can follow and nobody waits for it: from here on it is late,
// until all of what it was computing has come. One that was late before has not begun this clock, and has
// nothing of it to drop.
void Engine::close_without_late() {
  if (per_clock_ == std::ssize(workers_) || clocks_.empty()) return;
  const Clock closing(version_.value);
  if (clocks_.min_clock() > closing) return;
  const std::int64_t used_up = revision_.value + skipped_;
  const std::int64_t due = share_.due(closing, used_up);
  if (due <= 0 || gradients_.oldest_count() < due) return;  // behind the run's end nothing is due
  for (std::uint32_t r = 0; r < workers_.size(); ++r) {
    Worker& w = at(Rank(r));
    if (!live(w) || w.clock != closing) continue;
    PACELINE_ASSERT(in_iteration(w), "worker " + to_string(id(Rank(r))) + " is held at a clock that is open");
    if (w.phase == Phase::kRunning) {
      w.phase = Phase::kLate;
      w.needed = closing;
      ++dropped_;
      share_.give_back(w.running.iteration());
      emit(Discard{id(Rank(r)), closing});
    }
    gradients_.add_late(SkippedIteration{id(Rank(r)), closing});
    clocks_.advance(w.clock);
    w.clock = w.clock.next();
  }
  highest_ = std::max(highest_, closing.next());
}

// The version follows the min clock; with nobody live it follows what was reached, so that everything held is
// applied.
void Engine::advance_version() {
  close_without_late();
  const Clock target = clocks_.empty() ? highest_ : clocks_.min_clock();
  const Threshold before = policy_->threshold();
  bool switched = false;
  while (version_.value < target.value) {
    ++version_.value;
    ClockContributions closed =
        apply_ == ApplyMode::kVersioned ? gradients_.take() : std::exchange(arrived_, {});
    if (closed.metric.samples > 0) lpr_.add(Clock(version_.value - 1), closed.metric);
    apply(std::move(closed));
    version_begins_ = revision_;
    emit(VersionAdvanced{version_});
    batches_.forget_below(Clock(version_.value));
    share_.forget_below(Clock(version_.value));
    const std::size_t stage = policy_->stage();
    advance_policy();
    if (policy_->stage() != stage) switched = true;
  }
  if (!arrived_.empty()) apply(std::exchange(arrived_, {}));
  if (switched || policy_->threshold() != before) requeue_all();
}

// The window that ends at this version, if one does, then whether another policy takes over: the window is
// reported with the threshold that is in force after both.
void Engine::advance_policy() {
  const std::size_t stage = policy_->stage();
  const Threshold before = policy_->threshold();
  const std::optional<WindowResult> window = lpr_.on_version(version_);
  if (window) policy_->on_window(*window);
  const Threshold moved = policy_->threshold();
  policy_->on_version(version_, now_, clocks_);
  const Threshold after = policy_->threshold();
  if (window) {
    emit(WindowClosed{window->index, window->closed_at, window->loss_mean, window->accuracy, window->samples,
                      window->lpr, after});
  }
  if (moved != before) emit(ThresholdChanged{before, moved, window->lpr.value_or(0.0), version_});
  if (policy_->stage() == stage) return;
  const std::vector<PolicyStage>& stages = config_.policy.stages;
  emit(PolicySwitched{stages[stage].policy, stages[policy_->stage()].policy, moved, after, version_});
  if (apply_ == ApplyMode::kVersioned && apply_of_stage() == ApplyMode::kEager) turn_eager();
}

// From here on each gradient is applied on arrival: and so, at once, is what waited for its clock's turn, in
// clock order and each clock in worker order. Behind bsp nothing waits: everybody has completed the same
// clocks.
void Engine::turn_eager() {
  apply_ = ApplyMode::kEager;
  for (Clock clock(version_.value); gradients_.clocks() > 0; clock = clock.next()) {
    const ClockContributions held = gradients_.take();
    if (held.metric.samples > 0) lpr_.add(clock, held.metric);
    for (const Contributor& c : held.contributors) apply({{c}, {}, {}});
    for (const SkippedIteration& s : held.skipped) apply({{}, {s}, {}});
  }
}

ApplyMode Engine::apply_of_stage() const {
  return apply_in(config_.policy.stages, config_.apply, policy_->stage());
}

// There is no clock to average over where each is applied on arrival.
CombineMode Engine::combine() const {
  return apply_ == ApplyMode::kVersioned ? config_.combine : CombineMode::kEach;
}

void Engine::apply(ClockContributions contributions) {
  const bool mean = combine() == CombineMode::kMean;
  for (Contributor& c : contributions.contributors) {
    const std::int64_t missed =
        mean ? c.clock.value - c.version_known.value : revision_.value - c.updates_known;
    c.staleness = std::max<std::int64_t>(missed, 0);
    Worker& w = at(config_.cluster.rank_of(c.worker));
    w.staleness = static_cast<std::uint32_t>(std::min(c.staleness, kStalenessKept));
    ++revision_.value;
  }
  emit(Apply{std::move(contributions.contributors), std::move(contributions.skipped), combine(), version_,
             revision_, apply_, policy_->stage()});
}

// `rank` wants to begin its next iteration. It is granted in settle(), or waits there.
void Engine::ask(Rank rank) {
  Worker& w = at(rank);
  // Who has completed the open clock of a pool with backup workers waits for its end even if the pool is
  // empty: what those who are late then give back is done by all who are there.
  const bool may_give_back = config_.share == Share::kPool && per_clock_ < std::ssize(workers_);
  if ((stop_reason_ && w.clock >= stops_at(rank)) || (!may_give_back && share_.done(rank, w.clock))) {
    finish(rank);
    return;
  }
  w.phase = Phase::kHeld;
  w.since = now_;
  w.next_notice = now_ + config_.held_notice_after;
  enqueue_held(rank);
}

// Who is in an iteration has asked ahead.
void Engine::enqueue_held(Rank rank) {
  Worker& w = at(rank);
  const bool ahead = w.phase == Phase::kRunning;
  Clock& needed = ahead ? ahead_[rank.value].needed : w.needed;
  needed = needed_floor(rank, ahead ? w.clock.next() : w.clock);
  held_.add(rank, needed);
}

void Engine::requeue_all() {
  for (const Rank rank : held_.take_all()) enqueue_held(rank);
}

// c - floor <= s, said of the floor: floor >= c - s.
Clock Engine::needed_floor(Rank rank, Clock clock) const {
  if (quiesces_at_ && clock >= *quiesces_at_) return kNever;
  if (stop_reason_) return Clock(0);  // others of its group wait for it
  const Threshold s = policy_->threshold_for(rank, clock);
  if (s.is_infinite()) return Clock(0);
  return Clock(clock.value - s.value());
}

Clock Engine::floor() const { return policy_->floor(clocks_); }

// Carries every consequence through: versions, then grants, until nothing more follows.
void Engine::settle() {
  if (!started_ || finished_) return;
  for (;;) {
    advance_version();
    if (clocks_.empty()) break;
    const std::vector<Rank> released = held_.take_released(floor());
    if (released.empty()) break;
    for (const Rank rank : released) {
      if (at(rank).phase == Phase::kRunning) {
        grant_ahead(rank);
        continue;
      }
      // The pool may have run dry while this worker was held.
      share_.done(rank, at(rank).clock) ? finish(rank) : grant(rank);
    }
  }
  if (!clocks_.empty()) return look_for_rest();
  finished_ = true;
  EndReason reason = shares_done_ ? EndReason::kComplete : EndReason::kNobodyLeft;
  if (stop_reason_) reason = failed_ ? EndReason::kFailed : EndReason::kStopped;
  emit(AllFinished{reason, version_, revision_});
}

void Engine::grant(Rank rank) {
  Worker& w = at(rank);
  Version least = begins_;
  // Its caches are empty: so it has what it pushed before it was lost, as far as that is below the min clock.
  if (std::exchange(w.fresh, false)) {
    w.running.reads_no_older_than(version_begins_);
    least = std::max(least, Version(clocks_.min_clock().value));
  }
  const auto held = now_ - w.since;
  w.phase = Phase::kRunning;
  w.since = now_;
  w.held = !ahead_.empty();
  give(rank, w.clock, least, held);
  if (!ahead_.empty()) ask_ahead(rank);
}

// `rank` may begin the iteration stamped `clock`, with parameters of `least` or what the threshold says.
void Engine::give(Rank rank, Clock clock, Version least, std::chrono::nanoseconds held) {
  Worker& w = at(rank);
  const Threshold s = policy_->threshold_for(rank, clock);
  const Version min_version = std::max(s.oldest_version(clock), least);
  max_grant_gap_ = std::max(max_grant_gap_, clock - clocks_.min_clock());
  const std::int64_t iteration = share_.take(rank, clock);
  const BatchPart batch = batches_.part(rank, clock, iteration);
  // Where sizes follow what is reported, it has to be true; else a task may count as it likes.
  const bool unequal = config_.batch_sizing != BatchSizing::kEqual;
  const std::int64_t samples = unequal ? batch.samples : RunningIteration::kAnySamples;
  if (clock == w.clock) {
    w.running.begin(iteration, min_version, samples);
  } else {
    ahead_[rank.value].running.begin_behind(w.running, iteration, min_version, samples);
  }
  const std::int64_t contributors = std::min(clocks_.contributors(clock), per_clock_);
  emit(Grant{id(rank), clock, iteration, s, clocks_.min_clock(), min_version, version_, revision_,
             contributors, held, batch.position, batch.samples, batches_.clock_samples(clock, contributors),
             w.staleness, apply_, policy_->stage()});
}

}  // namespace paceline::sync
