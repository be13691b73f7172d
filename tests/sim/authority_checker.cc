// What should happen: the account that is kept of the events alone, before the engine sees them.
#include "tests/sim/authority_checker.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace paceline::test {

using namespace paceline::sync;

namespace {

PolicyConfig policy_in(const PolicyConfig& config, std::size_t stage) {
  PolicyConfig policy = config;
  policy.kind = config.stages[stage].policy;
  policy.threshold = config.stages[stage].threshold;
  policy.threshold_min = config.stages[stage].threshold_min;
  policy.threshold_max = config.stages[stage].threshold_max;
  return policy;
}

}  // namespace

AuthorityChecker::AuthorityChecker(const EngineConfig& config, Violations& violations)
    : config_(config),
      violations_(violations),
      first_n_(config.cluster.workers() -
               (config.policy.kind == PolicyKind::kBackup ? config.policy.backup_workers : 0)),
      fluid_(first_n_ == config.cluster.workers() && config.batch_sizing == BatchSizing::kEqual),
      shares_(config.total_iterations),
      eager_(config.apply == ApplyMode::kEager) {
  for (std::uint32_t r = 0; r < config.cluster.workers(); ++r) accounts_[config.cluster.worker_at(Rank(r))];
  take_policy(0);
}

void AuthorityChecker::take_policy(std::size_t stage) {
  for (std::size_t i = stage_; !config_.policy.stages.empty() && i <= stage; ++i) {
    const PolicyStage& begun = config_.policy.stages[i];
    eager_ = eager_ || begun.policy == PolicyKind::kAsp || begun.apply == ApplyMode::kEager;
  }
  stage_ = stage;
  policy_ = config_.policy.stages.empty() ? config_.policy : policy_in(config_.policy, stage);
  switch (policy_.kind) {
    case PolicyKind::kBsp:
    case PolicyKind::kBackup:
      threshold_ = Threshold(0);
      break;
    case PolicyKind::kAsp:
      threshold_ = Threshold::infinite();
      break;
    case PolicyKind::kSsp:
    case PolicyKind::kDtssp:
    case PolicyKind::kRandomWalk:
      threshold_ = Threshold(policy_.threshold);
      break;
    case PolicyKind::kDssp:
      threshold_ = Threshold(policy_.threshold_min);
      break;
    case PolicyKind::kSwitch:
      violation("a stage that is a switch");
      break;
  }
  const bool dssp = policy_.kind == PolicyKind::kDssp;
  largest_threshold_ = std::max(largest_threshold_, dssp ? Threshold(policy_.threshold_max) : threshold_);
}

bool AuthorityChecker::anybody_live() const {
  return std::any_of(accounts_.begin(), accounts_.end(), [this](const auto& a) { return is_live(a.second); });
}

Clock AuthorityChecker::slowest() const {
  Clock slowest(1'000'000);
  for (const auto& [worker, account] : accounts_) {
    if (is_live(account)) slowest = std::min(slowest, account.clock);
  }
  return slowest;
}

Clock AuthorityChecker::fastest() const {
  Clock fastest;
  for (const auto& [worker, account] : accounts_) {
    if (is_live(account)) fastest = std::max(fastest, account.clock);
  }
  return fastest;
}

void AuthorityChecker::note_clock_gap() { clock_gap_ = std::max(clock_gap_, fastest() - slowest()); }

bool AuthorityChecker::even_done(WorkerId worker, Clock clock) const {
  if (fluid_) return shares_.done(worker, clock);
  const std::int64_t backups = config_.cluster.workers() - first_n_;
  return left_at(clock) <= 0 || config_.cluster.rank_of(worker).value >= left_at(clock) + backups;
}

void AuthorityChecker::before(const Event& event, Ticks now) {
  now_ = now;
  rejection_due_ = !std::visit([this](const auto& e) { return note(e); }, event);
  note_late();
}

bool AuthorityChecker::note(const Joined& e) {
  if (begun_) {
    if (!may_come(e.worker)) return false;
    const Clock clock = std::max(slowest(), never_had_[e.worker]);
    accounts_[e.worker] = Account{State::kAsks, clock, {}, 0, {}, true, {}, std::nullopt, false};
    highest_ = std::max(highest_, clock);
    note_clock_gap();
    shares_.come(e.worker);
    pushes_[e.worker] = Pushes{};
    note_push(e.worker);
    return true;
  }
  accounts_[e.worker].state = State::kJoined;
  if (may_begin()) begin();
  return true;
}

bool AuthorityChecker::may_begin() const {
  std::map<NodeId, std::uint32_t> joined;
  for (const auto& [worker, account] : accounts_) joined[worker.node] += account.state == State::kJoined;
  const auto is_there = [this](const auto& node) { return node.second == config_.cluster.threads_per_node; };
  const auto nodes = std::count_if(joined.begin(), joined.end(), is_there);
  if (!awaited_) return nodes >= config_.nodes_at_start.value_or(config_.cluster.nodes);
  const auto is_here = [&](NodeId node) { return is_there(*joined.find(node)); };
  return nodes > 0 && std::all_of(awaited_->begin(), awaited_->end(), is_here);
}

void AuthorityChecker::begin() {
  begun_ = true;
  for (auto& [worker, account] : accounts_) {
    if (account.state != State::kJoined) continue;
    account.state = State::kAsks;
    shares_.come(worker);
  }
  for (auto& [worker, account] : accounts_) {
    if (is_live(account)) note_push(worker);
  }
}

bool AuthorityChecker::may_come(WorkerId worker) const {
  const State state = accounts_.at(worker).state;
  return fluid_ && !finished_ && !stopping_ && (state == State::kAbsent || state == State::kGone);
}

// That of the iteration with this stamp, which the worker is in or was granted ahead; null: of none.
AuthorityChecker::Account* AuthorityChecker::stamped(WorkerId worker, Clock clock) {
  Account& a = accounts_[worker];
  if (!in_iteration(a)) return nullptr;
  if (clock == a.stamp) return &a;
  return !a.ahead.empty() && clock == a.ahead.front().stamp ? &a.ahead.front() : nullptr;
}

// It is in what it was granted ahead, if there is that.
bool AuthorityChecker::promote(Account& a) {
  if (a.ahead.empty()) return false;
  Account next = std::move(a.ahead.front());
  a = std::move(next);
  return true;
}

bool AuthorityChecker::note(const GradientArrived& e) {
  Account* const of = stamped(e.worker, e.clock);
  if (of == nullptr) return false;
  Account& a = *of;
  if (a.report && a.report->empty) return false;
  if (!as_granted(a, e.weight)) return false;
  if (!a.arrived.insert(e.shard).second) return false;
  if (!e.fault.empty()) a.faulty = true;
  if (a.state == State::kRuns && a.faulty && config_.on_nan == OnNan::kStop) note_stop(true);
  note_completion(e.worker);
  return true;
}

bool AuthorityChecker::note(const StepReported& e) {
  Account* const of = stamped(e.worker, e.clock);
  if (of == nullptr || of->report) return false;
  Account& a = *of;
  if (e.empty && !a.arrived.empty()) return false;
  if (e.computed_version < a.min_version) return false;
  if (!e.empty && !as_granted(a, e.metric.samples)) return false;
  a.report = e;
  reports_[{e.worker, e.clock}] = e;
  if (e.empty) a.faulty = true;
  if (a.state == State::kRuns && a.faulty && config_.on_nan == OnNan::kStop) note_stop(true);
  note_completion(e.worker);
  return true;
}

void AuthorityChecker::note_completion(WorkerId worker) {
  Account& a = accounts_[worker];
  const bool whole = a.arrived.size() == config_.shards;
  if (!a.report || !(a.report->empty || whole)) return;
  if (a.state == State::kLate) {
    a.state = State::kAsks;
    return;
  }
  if (!a.faulty) {
    complete_.insert({worker, a.clock});
    metrics_[{worker, a.clock}] = a.report->metric;
    computed_[{worker, a.clock}] = {a.report->computed_version, a.report->computed_revision};
    Metric& window = windows_[a.clock.value / window_clocks_of(config_)];
    window.loss_sum += a.report->metric.loss_sum;
    window.correct += a.report->metric.correct;
    window.samples += a.report->metric.samples;
  } else if (whole) {
    discard_due_.insert({worker, a.clock});
    faulty_.insert({worker, a.clock});
  }
  if (a.faulty) {
    ++without_gradient_;
    empty_.insert({worker, a.clock});
  }
  a.state = State::kAsks;
  note_clock_moved(worker);
  if (promote(a)) note_completion(worker);
}

// Backup: the oldest open clock has its first N, or what is left of the run. Whoever has not completed it is
// late.
void AuthorityChecker::note_late() {
  if (first_n_ == config_.cluster.workers() || !begun_) return;
  const Clock closing(version_.value);
  const auto there = std::count_if(complete_.begin(), complete_.end(),
                                   [&](const Gradient& gradient) { return gradient.second == closing; });
  const std::int64_t left_in_pool =
      config_.total_iterations - applied_before_ - std::ssize(applied_) - without_gradient_;
  const std::int64_t due =
      std::min(first_n_, config_.share == Share::kPool ? left_in_pool : left_at(closing));
  if (due <= 0 || there < due) return;
  if (there > due) violation("more than the first " + std::to_string(due) + " are counted");
  for (auto& [worker, account] : accounts_) {
    if (!is_live(account) || account.clock != closing) continue;
    if (account.state == State::kRuns) {
      discard_due_.insert({worker, closing});
      if (config_.share == Share::kPool) returned_.insert(account.iteration);
      given_.erase(account.iteration);
      ++dropped_;
      account.state = State::kLate;
    }
    account.clock = account.clock.next();
  }
}

void AuthorityChecker::note_clock_moved(WorkerId worker) {
  Account& a = accounts_[worker];
  ++completed_iterations_;
  a.clock = a.clock.next();
  highest_ = std::max(highest_, a.clock);
  note_clock_gap();
  note_push(worker);
  if (policy_.kind != PolicyKind::kDssp || a.clock != fastest()) return;
  predict(worker);
}

void AuthorityChecker::note_push(WorkerId worker) {
  pushes_[worker].at.push_back(now_);
  pushes_[worker].place = pushes_seen_++;
}

// DSSP: how many extra iterations the fastest has, by trying every pair of predicted pushes.
void AuthorityChecker::predict(WorkerId worker) {
  const Clock clock = accounts_[worker].clock;
  Pushes& own = pushes_[worker];
  const Staleness lead = clock - slowest();
  if (clock <= own.extra_until || lead.value <= policy_.threshold_min) return;
  const Pushes* slow = nullptr;
  for (const auto& [other, pushes] : pushes_) {
    const Account& account = accounts_[other];
    if (!is_live(account) || account.clock != slowest()) continue;
    if (slow == nullptr || pushes.place > slow->place) slow = &pushes;
  }
  if (slow->at.size() < 2) return;
  const auto next = [](const Pushes& pushes, std::int64_t n) {
    const std::int64_t last = pushes.at.back().ns;
    return last + n * (last - pushes.at[pushes.at.size() - 2].ns);
  };
  const std::int64_t room = policy_.threshold_max - lead.value + 1;
  std::int64_t best = 0, least = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t r = 0; r <= room; ++r) {
    for (std::int64_t k = 0; k <= room; ++k) {
      const std::int64_t apart = std::abs(next(own, r) - next(*slow, k + 1));
      if (apart < least) best = r;
      least = std::min(least, apart);
    }
  }
  own.extra_until = Clock(clock.value + best - 1);
  own.raised = Threshold(lead.value + best - 1);
}

Threshold AuthorityChecker::threshold_of(WorkerId worker) const {
  const auto pushes = pushes_.find(worker);
  const bool extra = pushes != pushes_.end() && accounts_.at(worker).clock <= pushes->second.extra_until;
  return extra ? pushes->second.raised : threshold_;
}

bool AuthorityChecker::note(const Lost& e) {
  for (auto& [worker, account] : accounts_) {
    if (worker.node != e.node) continue;
    note_departure(worker);
    note_late();
  }
  if (begun_ || !awaited_) return true;
  if (awaited_->erase(e.node) > 0) anybody_lost_ = true;
  if (may_begin()) begin();
  return true;
}

void AuthorityChecker::note_departure(WorkerId worker) {
  Account& a = accounts_[worker];
  if (is_live(a)) {
    anybody_lost_ = true;
    if (anybody_finished_) lost_behind_finish_ = true;
  }
  std::vector<std::int64_t> granted;
  if (a.state == State::kRuns) {
    if (a.arrived.size() == config_.shards && !a.faulty) {
      complete_.insert({worker, a.clock});
      computed_[{worker, a.clock}] = {kNoVersion, kNoRevision};
      if (a.report) violation("a complete iteration was left running");
      note_clock_moved(worker);
      if (promote(a)) return note_departure(worker);
    } else {
      ++lost_;
      for (const Account& ahead : a.ahead) {  // one that nobody has begun is not lost
        if (a.report || ahead.report || !ahead.arrived.empty()) ++lost_;
      }
      const auto give_back = [&](const Account& each) {
        discard_due_.insert({worker, each.clock});
        if (config_.share == Share::kPool) returned_.insert(each.iteration);
        granted.push_back(each.iteration);
        given_.erase(each.iteration);
        sizes_[each.clock].erase(worker);
      };
      give_back(a);
      for (const Account& ahead : a.ahead) give_back(ahead);
      a.ahead.clear();
    }
  }
  if (is_live(a)) shares_.lose(worker, granted);
  a.state = State::kGone;
}

bool AuthorityChecker::note(const StopRequested&) {
  note_stop(false);
  return true;
}

// Where sizes follow speed a clock is cut for all workers, so a stop brings them to where the furthest will be; but
// of a run that has failed nothing is gone on from.
void AuthorityChecker::note_stop(bool failed) {
  if (failed) stops_at_ = Clock(0);
  if (std::exchange(stopping_, true) || failed || config_.batch_sizing == BatchSizing::kEqual) return;
  for (const auto& [worker, account] : accounts_) {
    if (!begun_ || !is_live(account)) continue;
    const auto granted = std::int64_t{in_iteration(account)} + std::ssize(account.ahead);
    stops_at_ = std::max(stops_at_, Clock(account.clock.value + granted));
  }
}

bool AuthorityChecker::note(const Tick&) { return true; }

}  // namespace paceline::test
