// What did happen: each of the engine's actions, judged by the account that authority_checker.cc keeps.
#include <algorithm>
#include <cmath>

#include "common/random.h"
#include "tests/sim/authority_checker.h"

namespace paceline::test {

using namespace paceline::sync;

void AuthorityChecker::after(const std::vector<Action>& actions) {
  for (const Action& action : actions) std::visit([this](const auto& a) { check(a); }, action);
  if (rejection_due_) violation("a wrong event was accepted");
  rejection_due_ = false;
  if (begun_) check_stage();
  eager_version_ = eager_ ? std::optional(version_) : std::nullopt;
  if (!begun_ || finished_) return;
  if (!discard_due_.empty()) violation("a gradient that is not whole was not discarded");
  if (threshold_step_due_.value_or(0) != 0) violation("the threshold should have moved");
  if (eager_ && applied_ != complete_) violation("a whole gradient waits, though each is applied on arrival");
  const std::int64_t expected = anybody_live() ? slowest().value : highest_.value;
  stays_ = eager_ && stopping_;
  if (version_.value != expected && !stays_) {
    violation("version " + to_string(version_) + ", expected " + std::to_string(expected));
  }
  // Nobody is held without a reason: this is where a forgotten wake-up shows. One in a run that quiesces
  // shows in that it does not.
  for (const auto& [worker, account] : accounts_) {
    if (account.state == State::kAsks && !rests_ && threshold_of(worker).allows(account.clock - slowest())) {
      violation("worker " + to_string(worker) + " is held for no reason");
    }
    const Clock next = account.clock.next();
    const bool may_go_ahead = config_.grants_ahead && account.state == State::kRuns &&
                              account.ahead.empty() && !rests_ && !stopping_ && !anybody_lost_ &&
                              !(config_.share == Share::kPool ? pool_empty() : even_done(worker, next));
    if (may_go_ahead && threshold_of(worker).allows(next - slowest()))
      violation("worker " + to_string(worker) + " is not granted ahead for no reason");
    if (account.state == State::kAsks && stopping_ && account.clock >= stops_at_)
      violation("worker " + to_string(worker) + " waits after a stop");
  }
  if (!anybody_live()) violation("nobody is live and the run does not end");
}

void AuthorityChecker::check(const Started&) {
  if (!begun_) violation("started before all joined");
}

void AuthorityChecker::check(const Apply& a) {
  if (!std::is_sorted(a.contributors.begin(), a.contributors.end()))
    violation("contributors are not in worker order");
  if (eager_ && a.contributors.size() > 1) violation("eager applies several at once");
  if ((a.apply == ApplyMode::kEager) != eager_ || a.stage != stage_)
    violation("an apply that names another way of applying, or stage, than is in force");
  if (a.combine != (eager_ ? CombineMode::kEach : config_.combine))
    violation("gradients are not combined as they are to be");
  for (const Contributor& c : a.contributors) {
    const Gradient gradient{c.worker, c.clock};
    const std::string who = to_string(c.worker) + "@" + to_string(c.clock);
    if (complete_.count(gradient) == 0) violation("applies " + who + ", which is not whole on every shard");
    if (computed_[gradient] != std::pair(c.computed_version, c.computed_revision)) {
      violation("applies " + who + " as computed with version " + to_string(c.computed_version) +
                ", revision " + to_string(c.computed_revision) + ", which is not what was reported");
    }
    if (!applied_.insert(gradient).second) violation("applies " + who + " twice");
    if (!eager_ && c.clock.value != a.version_after.value - 1) {
      violation("applies " + who + " for version " + to_string(a.version_after));
    }
    check_staleness(c);
    updates_.push_back(gradient);
  }
  if (eager_) return;
  for (const Gradient& gradient : complete_) {
    if (gradient.second.value < a.version_after.value && applied_.count(gradient) == 0) {
      violation("version " + to_string(a.version_after) + " lacks " + to_string(gradient.first) + "@" +
                to_string(gradient.second));
    }
  }
}

// Of each: the others' gradients between the revision it was computed with and this one, found in the list of
// all; its worker's own, since it came the last time, were in what it computed with. Those that turned out
// not to be finite were, too, though they are no updates. Of a gradient that was never reported its worker
// alone knows.
void AuthorityChecker::check_staleness(const Contributor& c) {
  const auto computed = reports_.extract({c.worker, c.clock});
  const Clock began = *std::prev(began_[c.worker].upper_bound(c.clock));
  const bool mean = !eager_ && config_.combine == CombineMode::kMean;  // a clock is one update
  std::int64_t least = 0, most = mean ? c.clock.value : std::ssize(updates_);
  if (computed) {
    const StepReported& with = computed.mapped();
    if (mean) {
      least = most = c.clock.value - with.computed_version.value;
    } else {
      most = std::count_if(
          updates_.begin() + with.computed_revision.value, updates_.end(),
          [&](const Gradient& other) { return other.first != c.worker || other.second < began; });
      const auto beside = std::count_if(faulty_.begin(), faulty_.end(), [&](const Gradient& own) {
        return own.first == c.worker && own.second < c.clock &&
               own.second.value >= with.computed_version.value;
      });
      least = std::max<std::int64_t>(most - beside, 0);
    }
  }
  if (c.staleness >= least && c.staleness <= most) return;
  violation("applies " + to_string(c.worker) + "@" + to_string(c.clock) + " as " +
            std::to_string(c.staleness) + " updates old, expected " + std::to_string(least) + " to " +
            std::to_string(most));
}

void AuthorityChecker::check(const Grant& g) {
  check_stage();
  Account& a = accounts_[g.worker];
  const std::string who = "grant to " + to_string(g.worker) + " at clock " + to_string(g.clock);
  if (stopping_ && g.clock >= stops_at_) violation(who + " after a stop");
  const bool ahead = config_.grants_ahead && a.state == State::kRuns && a.ahead.empty();
  if (a.state != State::kAsks && !ahead) violation(who + ", which did not ask");
  if (g.clock != (ahead ? a.clock.next() : a.clock))
    violation(who + ", which stands at " + to_string(a.clock));
  if ((g.apply == ApplyMode::kEager) != eager_ || g.stage != stage_)
    violation(who + " names another way of applying, or stage, than is in force");
  const Staleness lead = g.clock - slowest();
  grant_gap_ = std::max(grant_gap_, lead);
  const Threshold s = threshold_of(g.worker);
  if (g.threshold != s) violation(who + " under threshold " + to_string(g.threshold));
  if (!s.allows(lead)) violation(who + ": leads by " + to_string(lead) + ", threshold " + to_string(s));
  if (largest_threshold_ < s) violation(who + ": threshold " + to_string(s) + " is out of its range");
  if (g.min_clock != slowest()) violation(who + ": min clock " + to_string(g.min_clock));
  if (g.version.value != slowest().value) violation(who + ": version " + to_string(g.version));
  Version oldest =
      s.is_infinite() ? Version(0) : Version(std::max<std::int64_t>(0, g.clock.value - s.value()));
  oldest = std::max(oldest, begins_);
  if (a.fresh) oldest = std::max(oldest, Version(slowest().value));
  if (a.fresh || began_[g.worker].empty()) began_[g.worker].insert(g.clock);
  if (g.min_version != oldest) violation(who + ": min version " + to_string(g.min_version));

  if (config_.share == Share::kEven && even_done(g.worker, g.clock))
    violation(who + ": it has done its share");
  std::int64_t iteration =
      g.clock.value * config_.cluster.workers() + config_.cluster.rank_of(g.worker).value;
  if (config_.share == Share::kEven && fluid_) iteration = shares_.grant(g.worker, g.clock);
  if (config_.share == Share::kPool) {
    iteration = returned_.empty() ? next_iteration_++ : *returned_.begin();
    returned_.erase(iteration);
  }
  const bool even = config_.share == Share::kEven;  // its end is even_done()
  if (g.iteration != iteration || (!even && iteration >= config_.total_iterations)) {
    violation(who + ": iteration " + std::to_string(g.iteration) + ", expected " + std::to_string(iteration));
  }
  iterations_[{g.worker, g.clock}] = g.iteration;
  note_batch(g, who);
  if (policy_.kind != PolicyKind::kBackup) check_clock_samples(g, who);
  never_had_[g.worker] = g.clock.next();
  Account begun{State::kRuns, g.clock, g.clock,      g.iteration, g.min_version,
                false,        {},      std::nullopt, false,       g.samples};
  if (!ahead) {
    a = std::move(begun);
    return;
  }
  ++grants_ahead_;
  a.ahead.push_back(std::move(begun));
}

// No sample is two iterations', unless the first of them is lost.
void AuthorityChecker::note_batch(const sync::Grant& g, const std::string& who) {
  if (!given_.insert(g.iteration).second) violation(who + ": an iteration that is another's");
  if (config_.batch_sizing == BatchSizing::kBySpeed) return note_sizes(g, who);
  if (g.position != g.iteration * config_.batch_size || g.samples != config_.batch_size)
    violation(who + ": not its iteration's samples");
}

// The samples of a clock are its own, and no two iterations have one in common.
void AuthorityChecker::note_sizes(const sync::Grant& g, const std::string& who) {
  const std::int64_t per_clock = config_.batch_size * config_.cluster.workers();
  const std::int64_t first = g.clock.value * per_clock;
  const std::int64_t end = g.position + g.samples;
  if (g.samples < 1 || g.position < first || end > first + per_clock)
    violation(who + ": samples of another clock");
  const auto [own, is_new] = batches_.emplace(g.position, g.samples);
  const auto next = std::next(own);
  const bool overlaps_next = next != batches_.end() && next->first < end;
  const bool overlaps_last =
      own != batches_.begin() && std::prev(own)->first + std::prev(own)->second > g.position;
  if (!is_new || overlaps_next || overlaps_last) violation(who + ": samples that are another's");
}

// What a gradient's share of a mean is counted from: the samples of all who compute for the clock. They are
// known once each of those who are there has been granted it.
void AuthorityChecker::check_clock_samples(const sync::Grant& g, const std::string& who) {
  std::map<WorkerId, std::int64_t>& sizes = sizes_[g.clock];
  sizes[g.worker] = g.samples;
  std::int64_t sum = 0;
  for (const auto& [worker, account] : accounts_) {
    if (!is_live(account) && account.clock <= g.clock) continue;
    const auto size = sizes.find(worker);
    if (size != sizes.end()) {
      sum += size->second;
    } else if (account.clock <= g.clock) {
      return;
    }  // else it came after that clock
  }
  if (g.clock_samples == sum) return;
  violation(who + ": of " + std::to_string(g.clock_samples) + " samples, expected " + std::to_string(sum));
}

void AuthorityChecker::check(const HeldNotice& h) {
  if (accounts_[h.worker].state != State::kAsks) violation("held notice for one who does not wait");
  if (accounts_[h.waits_for].clock != slowest()) violation("held notice names one who is not the slowest");
}

void AuthorityChecker::check(const VersionAdvanced& v) {
  check_stage();
  if (v.version.value != version_.value + 1) violation("version jumps to " + to_string(v.version));
  if (stays_ && anybody_live()) violation("a stop moves the version of an eager run");
  version_ = v.version;
  completed_at_version_ = completed_iterations_;
  if (anybody_live() && version_.value > slowest().value) {
    violation("version " + to_string(version_) + " passes the slowest at " + to_string(slowest()));
  }
}

void AuthorityChecker::check(const WindowClosed& w) {
  threshold_announced_ = w.threshold;
  const Metric sums = windows_[w.index];
  const auto samples = static_cast<double>(sums.samples);
  if (w.samples != sums.samples || std::fabs(w.loss_mean - sums.loss_sum / samples) > 1e-9 || !w.accuracy ||
      std::fabs(*w.accuracy - static_cast<double>(sums.correct) / samples) > 1e-9) {
    violation("window " + std::to_string(w.index) + " does not hold the metrics of its clocks");
  }
  const bool by_accuracy = config_.lpr_metric == LprMetric::kAccuracy;
  const double current = by_accuracy ? static_cast<double>(sums.correct) / samples : sums.loss_sum / samples;
  if (w.index * window_clocks_of(config_) < stage_begun_.value) return;  // of two stages: nobody looks at it
  int step = 0;
  if (previous_metric_ && policy_.kind == PolicyKind::kDtssp) {
    const double gain =
        (by_accuracy ? current - *previous_metric_ : *previous_metric_ - current) / *previous_metric_;
    if (gain * 100 > policy_.increase_above) step = 1;
    if (gain * 100 < policy_.decrease_below) step = -1;
  }
  if (previous_metric_ && policy_.kind == PolicyKind::kRandomWalk) {
    CounterRandom coin(policy_.seed, Stream::kThresholdWalk, static_cast<std::uint64_t>(w.index));
    step = coin.next_u32() % 2 == 1 ? 1 : -1;
  }
  previous_metric_ = current;
  stage_window_ = sums;
  if (step != 0) {
    const std::int64_t wanted =
        std::clamp(threshold_.value() + step, policy_.threshold_min, policy_.threshold_max);
    threshold_step_due_ = static_cast<int>(wanted - threshold_.value());
  }
}

void AuthorityChecker::check(const ThresholdChanged& t) {
  const std::int64_t due = threshold_step_due_.value_or(0);
  if (t.from != threshold_ || t.to.value() - t.from.value() != due) {
    violation("threshold " + to_string(t.from) + " -> " + to_string(t.to) + ", expected a step of " +
              std::to_string(due));
  }
  threshold_step_due_ = 0;
  threshold_ = t.to;
  largest_threshold_ = std::max(largest_threshold_, threshold_);
}

// The stage that should be in force at the version that was reached last.
std::size_t AuthorityChecker::stage_due() const {
  std::size_t due = stage_;
  std::optional<Metric> window = stage_window_;
  for (; due + 1 < config_.policy.stages.size(); ++due, window.reset()) {
    const StageUntil& until = config_.policy.stages[due].until;
    bool over = false;
    if (until.end == StageEnd::kVersion) over = static_cast<double>(version_.value) >= until.value;
    if (until.end == StageEnd::kIterations) over = static_cast<double>(completed_at_version_) >= until.value;
    if (window && until.end == StageEnd::kTrainAccuracy) {
      over = static_cast<double>(window->correct) / static_cast<double>(window->samples) >= until.value;
    }
    if (window && until.end == StageEnd::kTrainLoss) {
      over = window->loss_sum / static_cast<double>(window->samples) <= until.value;
    }
    if (!over) break;
  }
  return due;
}

void AuthorityChecker::check_stage() {
  if (version_.value > 0 && stage_due() != stage_) violation("another policy should have taken over");
  if (threshold_announced_.value_or(threshold_) != threshold_) violation("a window names another threshold");
  threshold_announced_.reset();
}

void AuthorityChecker::check(const PolicySwitched& p) {
  const std::size_t due = stage_due();
  if (due == stage_) violation("another policy has taken over too soon");
  if (p.version != version_ || p.from != policy_.kind || p.threshold_from != threshold_) {
    violation("a switch from what is not in force");
  }
  stage_begun_ = version_;
  stage_window_.reset();
  previous_metric_.reset();
  take_policy(due);
  if (p.to != policy_.kind || p.threshold_to != threshold_) violation("a switch to what is not next");
  for (auto& [worker, pushes] : pushes_) pushes = Pushes{{pushes.at.back()}, pushes.place, Clock(-1), {}};
}

void AuthorityChecker::check(const Discard& d) {
  if (discard_due_.erase({d.worker, d.clock}) == 0) {
    violation("discards " + to_string(d.worker) + "@" + to_string(d.clock) + " for no reason");
  }
}

void AuthorityChecker::check(const FinishWorker& f) {
  Account& a = accounts_[f.worker];
  if (a.state != State::kAsks) violation("worker " + to_string(f.worker) + " is told to finish unasked");
  const bool done = config_.share == Share::kPool ? pool_empty() : even_done(f.worker, a.clock);
  const bool stops = stopping_ && a.clock >= stops_at_;
  if (!stops && !done) violation("worker " + to_string(f.worker) + " is told to finish too early");
  const bool gives_back = config_.share == Share::kPool && config_.policy.kind == PolicyKind::kBackup &&
                          config_.policy.backup_workers > 0;
  if (!stopping_ && gives_back && a.clock.value > version_.value)
    violation("worker " + to_string(f.worker) + " is told to finish before its clock has closed");
  a.state = State::kFinished;
  anybody_finished_ = true;
  shares_.finish(f.worker);
}

void AuthorityChecker::check(const RunFailed&) {
  if (!stopping_ || config_.on_nan != OnNan::kStop) violation("failed for no reason");
}

void AuthorityChecker::check(const AllFinished& a) {
  complete_end_ = a.reason == EndReason::kComplete;
  if (anybody_live()) violation("ended while somebody is live");
  if (applied_ != complete_) violation("ended with whole gradients that are not applied");
  // Eager, who was ahead of the slowest has one version for all that it did, unless nothing is left to do.
  const bool is_done = completed_iterations_ >= config_.total_iterations;
  if (eager_version_ &&
      (is_done ? version_.value != highest_.value : version_.value > eager_version_->value + 1)) {
    violation("ended at version " + to_string(version_) + ", was at " + to_string(*eager_version_));
  }
  finished_ = true;
}

void AuthorityChecker::check(const Quiesced&) {
  const auto begun = [this](const auto& entry) { return in_iteration(entry.second); };
  if (std::any_of(accounts_.begin(), accounts_.end(), begun))
    violation("at rest while somebody is in an iteration");
  if (applied_ != complete_) violation("at rest with whole gradients that are not applied");
}

void AuthorityChecker::check(const Reject& r) {
  if (!rejection_due_) violation("a right event was refused: " + r.status.message());
  rejection_due_ = false;
}

void AuthorityChecker::at_end(const Engine& engine) {
  if (!finished_) violation("the run did not end");
  if (engine.max_grant_gap() != grant_gap_) violation("max grant gap " + to_string(engine.max_grant_gap()));
  if (engine.max_clock_gap() != clock_gap_) violation("max clock gap " + to_string(engine.max_clock_gap()));
  if (!largest_threshold_.is_infinite() && clock_gap_.value > largest_threshold_.value() + 1) {
    violation("clocks differed by " + to_string(clock_gap_));
  }
  if (engine.iterations_applied() != applied_before_ + std::ssize(applied_))
    violation("iterations are miscounted");
  if (engine.iterations_dropped() != dropped_) violation("dropped gradients are miscounted");
  if (engine.iterations_lost() != lost_) violation("lost iterations are miscounted");
  // share: even, backup: a clock may have iterations without a gradient beside its first N.
  const bool more = policy_.kind == PolicyKind::kBackup && config_.share == Share::kEven;
  const bool enough = more ? completed_iterations_ >= config_.total_iterations
                           : completed_iterations_ == config_.total_iterations;
  // Whoever is lost is made up for, unless the first has been told that nothing is left.
  const bool made_up_for = fluid_ && complete_end_ && !lost_behind_finish_;
  if ((!anybody_lost_ || made_up_for) && !stopping_ && !enough) {
    violation("only " + std::to_string(completed_iterations_) + " iterations were done");
  }
}

}  // namespace paceline::test
