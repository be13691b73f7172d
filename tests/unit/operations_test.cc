// Finding the min clock and deciding a step costs O(1) amortised, however many workers there are: counted in
// basic blocks of the core that are run through, not timed. For this program the core is compiled so that it
// calls the function below in each of its blocks (tests/subjects/sync.cmake).
#include <catch2/catch.hpp>
#include <vector>

#include "common/random.h"
#include "common/sync/dssp.h"
#include "common/sync/engine.h"

namespace {

std::uint64_t blocks_run = 0;

}  // namespace

extern "C" void __sanitizer_cov_trace_pc() { ++blocks_run; }

namespace paceline::sync {
namespace {

// One in ten; and most of them come back, one after another.
enum class Departures { kNone, kOneInTen, kAndBack };

struct Cost {
  double blocks_per_step = 0.0;
  std::int64_t departed = 0;
  std::int64_t returned_differences = 0;
  std::int64_t threshold_changes = 0;
  std::int64_t rejected = 0;
};

// A run of `workers`, a node each, in which whoever may go on is drawn at random, and now and then who is
// lost. Under DTSSP learning goes up and down with every clock, and the threshold with it, as under the
// random walk with the coin: all who are held are filed anew each time.
class Run {
 public:
  Run(std::uint32_t workers, PolicyKind kind)
      : engine_(config_of(workers, kind)), gone_(workers), stamps_(workers) {
    for (std::uint32_t n = 0; n < workers; ++n) take(Joined{WorkerId(n, 0)});
  }

  Cost cost(Departures departures) {
    const auto workers = static_cast<std::int64_t>(gone_.size());
    const std::int64_t steps = 20 * workers;
    blocks_run = 0;
    for (std::int64_t i = 0; i < steps; ++i) {
      if (departures != Departures::kNone && random_.next_below(200) == 0) lose_somebody();
      if (departures == Departures::kAndBack && random_.next_below(250) == 0) somebody_comes_back();
      step();
    }
    cost_.blocks_per_step = static_cast<double>(blocks_run) / static_cast<double>(steps);
    return cost_;
  }

 private:
  static EngineConfig config_of(std::uint32_t workers, PolicyKind kind) {
    EngineConfig config;
    config.cluster = {workers, 1};
    config.policy.kind = kind;
    config.policy.threshold = 3;
    config.policy.threshold_min = 1;
    config.policy.threshold_max = 6;
    config.policy.backup_workers = workers / 10;
    config.policy.increase_above = 5.0;
    config.policy.decrease_below = -5.0;
    config.window_clocks = 1;
    config.apply = kind == PolicyKind::kAsp ? ApplyMode::kEager : ApplyMode::kVersioned;
    config.combine = CombineMode::kEach;
    config.total_iterations = std::int64_t{workers} * 1000;
    if (kind == PolicyKind::kSwitch) {
      PolicyStage first, second;
      first.policy = PolicyKind::kDssp;
      first.threshold_min = 1;
      first.until = {StageEnd::kVersion, 5};
      second.policy = PolicyKind::kSsp;
      config.policy.stages = {first, second};
    }
    return config;
  }

  void take(const Event& event) {
    actions_.clear();
    now_ = now_ + std::chrono::microseconds(1 + random_.next_below(100));
    engine_.step(event, now_, actions_);
    for (const Action& action : actions_) {
      if (const auto* grant = std::get_if<Grant>(&action)) {
        runnable_.push_back(*grant);
        stamps_[grant->worker.node.value] = grant->clock;
      }
      if (std::holds_alternative<ThresholdChanged>(action)) ++cost_.threshold_changes;
      if (std::holds_alternative<Reject>(action)) ++cost_.rejected;
    }
  }

  void lose_somebody() {
    const auto node = static_cast<std::uint32_t>(random_.next_below(gone_.size()));
    const auto live = static_cast<std::int64_t>(gone_.size()) - cost_.departed + cost_.returned_differences;
    if (gone_[node] || live == 1) return;
    gone_[node] = true;
    stamps_[node] = Clock(-1);
    who_went_.push_back(node);
    ++cost_.departed;
    take(Lost{NodeId(node)});
  }

  void somebody_comes_back() {
    if (who_went_.empty()) return;
    std::swap(who_went_[random_.next_below(who_went_.size())], who_went_.back());
    const std::uint32_t node = who_went_.back();
    who_went_.pop_back();
    gone_[node] = false;
    ++cost_.returned_differences;
    take(Joined{WorkerId(node, 0)});
  }

  // A grant from before its worker was lost: no stamp comes again.
  bool is_over(const Grant& grant) const {
    const std::uint32_t node = grant.worker.node.value;
    return gone_[node] || stamps_[node] != grant.clock;
  }

  void step() {
    Grant grant;
    do {
      std::swap(runnable_[random_.next_below(runnable_.size())], runnable_.back());
      grant = runnable_.back();
      runnable_.pop_back();
    } while (is_over(grant));
    take(GradientArrived{ShardId(0), grant.worker, grant.clock, 10, ""});
    StepReported report;
    report.worker = grant.worker;
    report.clock = grant.clock;
    report.metric = {1.0, grant.clock.value % 2 == 0 ? 1 : 9, 10};
    report.computed_version = grant.version;
    take(report);
  }

  Engine engine_;
  std::vector<bool> gone_;     // by node
  std::vector<Clock> stamps_;  // by node: of its grant, since it came
  std::vector<std::uint32_t> who_went_;
  std::vector<Action> actions_;
  std::vector<Grant> runnable_;
  CounterRandom random_{1, Stream::kTest};
  Ticks now_;
  Cost cost_;
};

TEST_CASE("a_step_costs_the_same_with_ten_and_with_ten_thousand_workers") {
  const PolicyKind kind =
      GENERATE(PolicyKind::kBsp, PolicyKind::kSsp, PolicyKind::kDtssp, PolicyKind::kRandomWalk,
               PolicyKind::kDssp, PolicyKind::kBackup, PolicyKind::kSwitch, PolicyKind::kAsp);
  const Departures departures = GENERATE(Departures::kNone, Departures::kOneInTen, Departures::kAndBack);
  if (kind == PolicyKind::kBackup && departures == Departures::kAndBack) return;  // nobody comes back there
  const Cost few = Run(10, kind).cost(departures);
  const Cost many = Run(10'000, kind).cost(departures);
  INFO("policy " << static_cast<int>(kind) << ", " << many.departed << " departed, "
                 << many.returned_differences << " came back: " << few.blocks_per_step << " and "
                 << many.blocks_per_step << " blocks per step, " << many.threshold_changes
                 << " changes of the threshold");
  CHECK(few.blocks_per_step > 0.9);
  CHECK((few.rejected == 0 && many.rejected == 0));
  if (departures == Departures::kNone) {
    CHECK(many.blocks_per_step < few.blocks_per_step * 1.5);
  } else {
    // More plans are open at a time: a grant looks for its own three times, among up to 32 with five
    // comparisons instead of one.
    CHECK(many.blocks_per_step < few.blocks_per_step * 2.5);
  }
  CHECK((many.departed > 500) == (departures != Departures::kNone));
  CHECK((many.returned_differences > 500) == (departures == Departures::kAndBack));
  const bool moves = kind == PolicyKind::kDtssp || kind == PolicyKind::kRandomWalk;
  CHECK((many.threshold_changes > 5) == moves);
}

// DSSP's controller stops at two pushes that fall together, and otherwise looks at each push once.
TEST_CASE("predicted_pushes_are_looked_at_until_two_fall_together_and_at_most_once") {
  const auto blocks_read = [](std::int64_t slow_interval) {
    blocks_run = 0;
    const Ticks begin(0), fast(10), slow(5);
    extra_iterations({begin, fast}, {Ticks(slow.ns - slow_interval), slow}, kDsspRangeMax);
    return blocks_run;
  };
  constexpr std::uint64_t kBlocksEach = 5;
  CHECK(blocks_read(25) <= 4 * kBlocksEach);  // 10 20 30 and 30
  CHECK(blocks_read(20) > 1000);              // 10 20 30 and 25 45 65: never
  CHECK(blocks_read(20) <= (2 * kDsspRangeMax + 2) * kBlocksEach);
}

}  // namespace
}  // namespace paceline::sync
