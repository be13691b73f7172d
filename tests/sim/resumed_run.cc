#include "tests/sim/resumed_run.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "common/random.h"
#include "common/sync/engine.h"
#include "tests/sim/late_joins.h"
#include "tests/sim/run_plan.h"

namespace paceline::test {
namespace {

using namespace paceline::sync;

constexpr int kEventsMax = 20'000;  // a right core needs far fewer

class ResumedRun {
 public:
  ResumedRun(const ResumedPlan& plan, const ThroughAFile& through_a_file)
      : plan_(plan),
        through_a_file_(through_a_file),
        random_(plan.timing, Stream::kTest, 21),
        stop_random_(plan.timing, Stream::kTest, 24),
        cluster_(plan.config.cluster),
        engine_(std::make_unique<Engine>(plan.config)),
        account_(plan.config, engine_->threshold(), outcome_.violations),
        workers_(cluster_.workers()),
        start_over_(cluster_.workers(), true),
        there_(cluster_.workers(), false),
        crashes_left_(plan.crashes),
        stops_left_(plan.stops) {}

  ResumedOutcome run() {
    begin();
    for (int events = 0; events < kEventsMax && right(); ++events) {
      if (engine_->finished() && engine_->stopping()) {
        save();
        crash();
        continue;
      }
      if (engine_->finished() && !(crashes_left_ > 0 && !saves_.empty() && chance(3))) break;
      if (!saves_.empty() && crashes_left_ > 0 && (engine_->finished() || chance(25))) {
        crash();
      } else if (may_stop() && stop_random_.next_below(30) == 0) {
        --stops_left_;
        ++outcome_.stops;
        take(StopRequested{"signal"});
      } else {
        go_on();
      }
      if (right() && chance(12)) save();
    }
    if (right() && !engine_->finished()) wrong("the run does not end");
    if (right()) account_.at_end(nobody_missed());
    outcome_.log = account_.log();
    return std::move(outcome_);
  }

 private:
  struct Iteration {
    Grant grant;
    bool late = false;  // nobody waits for it (backup)
    std::set<std::uint32_t> shards = {};
    bool reported = false;
  };
  struct Worker {
    bool live = false;
    Clock clock;
    std::deque<Iteration> iterations = {};  // the one that it is in, and one that was granted ahead
  };
  struct Save {
    EngineState state;
    ResumedAccount::Mark mark;
    bool ahead = false;
    std::vector<bool> counts;  // by rank: who was there and had completed an iteration since it came
  };

  bool right() const { return outcome_.violations.empty(); }
  void wrong(const std::string& what) { outcome_.violations.push_back("resumed: " + what); }
  bool chance(std::uint64_t one_in) { return random_.next_below(one_in) == 0; }
  bool may_stop() const {
    return stops_left_ > 0 && crashes_left_ > 0 && engine_->started() && !engine_->finished() &&
           !engine_->stopping();
  }
  bool fluid() const { return workers_come_and_go(plan_.config); }
  Worker& at(WorkerId id) { return workers_[cluster_.rank_of(id).value]; }
  bool is_there(std::uint32_t node) {
    for (std::uint32_t t = 0; t < cluster_.threads_per_node; ++t) {
      if (at({node, t}).live) return true;
    }
    return false;
  }
  // Whether all iterations must be done: whoever is lost is made up for, but not where each clock is cut for
  // all; and under backup with an even share some are done for nothing.
  bool nobody_missed() const {
    if (fluid()) return true;
    const bool dropped = plan_.config.policy.kind == PolicyKind::kBackup;
    return !somebody_lost_ && !(dropped && plan_.config.share == Share::kEven);
  }
  // What an iteration comes to is its own affair, not one of timing.
  CounterRandom of(const Grant& grant) const {
    return CounterRandom(7, Stream::kTest, 22, static_cast<std::uint64_t>(grant.iteration));
  }
  bool is_empty(const Grant& grant) const { return of(grant).next_double() < plan_.nan_chance; }
  bool is_faulty(const Grant& grant) const {
    return !is_empty(grant) && of(grant).next_double() < 1.5 * plan_.nan_chance;
  }
  Metric metric_of(const Grant& grant) const {
    CounterRandom random(7, Stream::kTest, 23, static_cast<std::uint64_t>(grant.iteration));
    return {0.125 * static_cast<double>(1 + random.next_below(80)),
            1 + static_cast<std::int64_t>(random.next_below(static_cast<std::uint64_t>(grant.samples))),
            grant.samples};
  }

  void begin() {
    std::vector<std::uint32_t> nodes = shuffled();
    if (fluid() && plan_.config.nodes_at_start) nodes.resize(*plan_.config.nodes_at_start);
    for (const std::uint32_t node : nodes) join(node);
  }

  std::vector<std::uint32_t> shuffled() {
    std::vector<std::uint32_t> nodes(cluster_.nodes);
    for (std::uint32_t n = 0; n < nodes.size(); ++n) {
      nodes[n] = n;
      std::swap(nodes[n], nodes[random_.next_below(n + 1)]);
    }
    return nodes;
  }

  void join(std::uint32_t node) {
    for (std::uint32_t t = 0; t < cluster_.threads_per_node; ++t) {
      const WorkerId worker(node, t);
      Worker& w = at(worker);
      there_[cluster_.rank_of(worker).value] = true;
      if (engine_->started()) start_over_[cluster_.rank_of(worker).value] = true;
      w = Worker{true, engine_->started() ? slowest() : Clock(engine_->version().value)};
      take(Joined{worker});
      if (engine_->started() && w.iterations.empty()) w.clock = engine_->clock_of(worker);
    }
  }

  Clock slowest() const {
    std::optional<Clock> least;
    for (const Worker& w : workers_) {
      if (w.live) least = std::min(least.value_or(w.clock), w.clock);
    }
    return least.value_or(Clock(engine_->version().value));
  }

  void go_on() {
    std::vector<std::uint32_t> running, there, gone;
    for (std::uint32_t r = 0; r < workers_.size(); ++r) {
      if (!workers_[r].iterations.empty()) running.push_back(r);
    }
    for (std::uint32_t n = 0; n < cluster_.nodes; ++n) (is_there(n) ? there : gone).push_back(n);
    if (running.empty()) return wrong("nobody does anything, and the run does not end");
    // Who is lost when others have done their share may not be made up for.
    if (plan_.losses && there.size() > 1 && !somebody_finished_ && chance(60)) {
      return lose(there[random_.next_below(there.size())]);
    }
    if (fluid() && !gone.empty() && !somebody_finished_ && !engine_->stopping() && chance(30)) {
      return join(gone[random_.next_below(gone.size())]);
    }
    if (chance(20)) return take(Tick{});
    do_a_piece(cluster_.worker_at(Rank(running[random_.next_below(running.size())])));
  }

  // One message of the worker's: a shard holds its gradient, or it reports. Of two iterations those of the first come
  // first from each shard, and from the worker itself.
  void do_a_piece(WorkerId worker) {
    Worker& w = at(worker);
    const auto piece = static_cast<std::uint32_t>(random_.next_below(plan_.config.shards + 1));
    const bool reports = piece == plan_.config.shards;
    const auto lacks = [&](const Iteration& one) {
      return reports ? !one.reported : !is_empty(one.grant) && one.shards.count(piece) == 0;
    };
    const auto found = std::find_if(w.iterations.begin(), w.iterations.end(), lacks);
    if (found == w.iterations.end()) return;
    const Grant grant = found->grant;
    if (reports) {
      found->reported = true;
    } else {
      found->shards.insert(piece);
    }
    if (found != w.iterations.begin()) ++outcome_.ahead;
    complete_what_is_whole(w);
    if (reports) {
      return take(StepReported{worker, grant.clock, metric_of(grant), grant.version, grant.revision,
                               is_empty(grant), "", 0});
    }
    const bool finds_it = is_faulty(grant) && piece == 0;
    take(GradientArrived{ShardId(piece), worker, grant.clock, grant.samples, finds_it ? "weights" : ""});
  }

  void complete_what_is_whole(Worker& w) {
    while (!w.iterations.empty()) {
      const Iteration& first = w.iterations.front();
      const bool whole = is_empty(first.grant) || first.shards.size() == plan_.config.shards;
      if (!first.reported || !whole) return;
      if (!first.late) {
        const bool skipped = is_empty(first.grant) || is_faulty(first.grant);
        account_.complete({first.grant, skipped, skipped ? Metric{} : metric_of(first.grant)});
        w.clock = w.clock.next();
        start_over_[cluster_.rank_of(first.grant.worker).value] = false;
      }
      w.iterations.pop_front();
    }
  }

  void lose(std::uint32_t node) {
    somebody_lost_ = true;
    for (std::uint32_t t = 0; t < cluster_.threads_per_node; ++t) {
      Worker& w = at({node, t});
      for (const Iteration& one : w.iterations) {
        if (one.late || one.shards.size() < plan_.config.shards || is_faulty(one.grant)) break;
        account_.complete({one.grant, false, Metric{}});  // it cannot say any more what was measured
      }
      w = Worker{};
      there_[cluster_.rank_of({node, t}).value] = false;
    }
    take(Lost{NodeId(node)});
  }

  void save() {
    if (!engine_->started()) return;
    const EngineState state = engine_->state();
    const Status status = validate(state, plan_.config);
    if (!status.is_ok()) return wrong("a state that is no run's: " + status.message());
    if (state.version != engine_->version() || state.revision != engine_->revision())
      wrong("another version");
    bool ahead = false;
    for (const LoggedIteration& done : account_.log()) {
      ahead = ahead || done.grant.clock.value >= state.version.value;
    }
    std::vector<bool> counts = there_;
    for (std::size_t r = 0; r < counts.size(); ++r) counts[r] = counts[r] && !start_over_[r];
    saves_.push_back({state, account_.mark(), ahead, std::move(counts)});
  }

  // The servers die; they are started again with the last checkpoint, or, where that is damaged, with the one
  // before.
  void crash() {
    --crashes_left_;
    ++outcome_.crashes;
    if (saves_.size() > 1 && chance(4)) saves_.pop_back();
    const Save& save = saves_.back();
    Result<EngineState> state = through_a_file_(save.state);
    if (!state.is_ok()) return wrong(state.status().message());
    Result<Engine> resumed = Engine::resumed(plan_.config, *state);
    if (!resumed.is_ok()) return wrong("refused: " + resumed.status().message());
    engine_ = std::make_unique<Engine>(std::move(resumed).value());
    now_ = Ticks(0);
    account_.rewind(save.mark);
    if (engine_->threshold() != save.mark.threshold) wrong("resumed with another threshold");
    outcome_.applied_ahead = outcome_.applied_ahead || save.ahead;
    somebody_finished_ = false;
    for (Worker& w : workers_) w = Worker{};
    for (std::size_t r = 0; r < workers_.size(); ++r) start_over_[r] = !save.counts[r];
    there_.assign(workers_.size(), false);
    come_again(save.state);
  }

  void come_again(const EngineState& state) {
    const LateJoins joiners = draw_joiners(plan_.config, state, shuffled(), plan_.losses,
                                           [this](std::uint64_t one_in) { return chance(one_in); });
    if (joiners.somebody_was_lost) ++outcome_.lost_before;
    const auto give_up = [&] {
      for (const std::uint32_t node : joiners.stay_away) take(Lost{NodeId(node)});
      somebody_lost_ = somebody_lost_ || !joiners.stay_away.empty();
    };
    const bool given_up_first = fluid() && chance(2);
    if (given_up_first) give_up();
    for (const std::uint32_t node : joiners.come) {
      if (right() && !engine_->finished()) join(node);
    }
    if (!given_up_first) give_up();
    if (right() && !engine_->started()) wrong("all have come, and training does not begin");
  }

  void take(const Event& event) {
    std::vector<Action> actions;
    now_ = now_ + std::chrono::microseconds(1 + random_.next_below(5000));
    engine_->step(event, now_, actions);
    bool decided = false;
    for (const Action& action : actions) {
      std::visit([this](const auto& a) { note(a); }, action);
      decided = decided || std::holds_alternative<VersionAdvanced>(action) ||
                (engine_->apply_mode() == ApplyMode::kEager && std::holds_alternative<Apply>(action));
    }
    if (right() && decided && chance(4)) save();
  }

  template <typename A>
  void note([[maybe_unused]] const A& action) {
    if constexpr (requires { account_.check(action); }) account_.check(action);
  }
  void note(const Grant& g) {
    Worker& w = at(g.worker);
    const std::string who = "a grant to " + to_string(g.worker);
    if (!w.live) return wrong(who + ", which is not there");
    if (g.starts_over != start_over_[cluster_.rank_of(g.worker).value]) {
      return wrong(who + ", whose former rounds are taken wrongly");
    }
    if (w.iterations.empty()) {
      w.clock = g.clock;
    } else if (!plan_.config.grants_ahead || w.iterations.size() > 1 || g.clock != w.clock.next()) {
      return wrong(who + ", which has " + std::to_string(w.iterations.size()));
    }
    w.iterations.push_back({g});
    account_.check(g, g.clock - slowest());
  }
  void note(const Discard& d) {
    Worker& w = at(d.worker);
    if (plan_.config.policy.kind != PolicyKind::kBackup || w.iterations.empty()) return;
    if (w.iterations.front().grant.clock != d.clock) return;
    w.iterations.front().late = true;
    w.clock = w.clock.next();
  }
  void note(const FinishWorker& f) {
    at(f.worker) = Worker{};
    somebody_finished_ = true;
  }
  void note(const AllFinished& a) {
    if (a.reason == (engine_->stopping() ? EndReason::kStopped : EndReason::kComplete)) return;
    wrong("the run ends without being complete");
  }
  void note(const Reject& r) { wrong("a right event was refused: " + r.status.message()); }

  const ResumedPlan& plan_;
  const ThroughAFile& through_a_file_;
  CounterRandom random_, stop_random_;
  const Cluster cluster_;
  ResumedOutcome outcome_;
  std::unique_ptr<Engine> engine_;
  ResumedAccount account_;
  std::vector<Worker> workers_;  // by rank, as the following
  std::vector<bool> start_over_,
      there_;  // who has completed nothing since it came; who has come, and was not lost
  std::vector<Save> saves_;
  Ticks now_;
  int crashes_left_, stops_left_;
  bool somebody_lost_ = false, somebody_finished_ = false;
};

}  // namespace

ResumedPlan resumed_plan_of(std::uint64_t seed) {
  CounterRandom random(seed, Stream::kTest, 20);
  ResumedPlan plan;
  plan.timing = seed;
  plan.config = plan_of(seed).config;
  plan.config.on_nan = OnNan::kSkip;
  plan.config.total_iterations += static_cast<std::int64_t>(random.next_below(60));
  plan.config.nodes_at_start.reset();
  if (workers_come_and_go(plan.config) && random.next_below(3) == 0) {
    plan.config.nodes_at_start = 1 + static_cast<std::uint32_t>(random.next_below(plan.config.cluster.nodes));
  }
  plan.crashes = 1 + static_cast<int>(random.next_below(4));
  plan.losses = random.next_below(2) == 0;
  if (random.next_below(3) == 0) plan.nan_chance = 0.08;
  plan.stops = static_cast<int>(random.next_below(3));
  return plan;
}

ResumedOutcome run_and_resume(const ResumedPlan& plan, const ThroughAFile& through_a_file) {
  return ResumedRun(plan, through_a_file).run();
}

}  // namespace paceline::test
