// How stale a gradient is: the updates between the parameters it was computed with and its application, as
// the engine counts them.
#include <catch2/catch.hpp>
#include <utility>
#include <vector>

#include "common/params/staleness.h"
#include "common/sync/engine.h"

namespace paceline::sync {
namespace {

const WorkerId kWorkerA(0, 0), kWorkerB(1, 0), kWorkerC(2, 0);

// Three nodes of one worker, one shard.
class Counted {
 public:
  Counted(PolicyKind policy, ApplyMode apply, CombineMode combine) : engine_(config(policy, apply, combine)) {
    for (const WorkerId worker : {kWorkerA, kWorkerB, kWorkerC}) take(Joined{worker});
  }

  // `worker` has completed `clock`, with these parameters. Returns the staleness of what that applies.
  std::vector<std::int64_t> step(WorkerId worker, std::int64_t clock, std::int64_t version,
                                 std::int64_t revision, std::int64_t own_updates = 0) {
    take(report(worker, clock, version, revision, own_updates));
    return take(GradientArrived{ShardId(0), worker, Clock(clock), 32, ""});
  }

  std::vector<std::int64_t> take(const Event& event) {
    actions_.clear();
    engine_.step(event, Ticks(0), actions_);
    std::vector<std::int64_t> staleness;
    for (const Action& action : actions_) {
      const auto* apply = std::get_if<Apply>(&action);
      for (std::size_t k = 0; apply != nullptr && k < apply->contributors.size(); ++k) {
        staleness.push_back(apply->contributors[k].staleness);
      }
    }
    return staleness;
  }

  static StepReported report(WorkerId worker, std::int64_t clock, std::int64_t version, std::int64_t revision,
                             std::int64_t own_updates) {
    return {worker, Clock(clock), {1.0, 1, 32}, Version(version), Revision(revision), false, "", own_updates};
  }

  std::string rejected() const {
    const auto* reject = std::get_if<Reject>(&actions_.back());
    return reject == nullptr ? "" : reject->status.message();
  }

 private:
  static EngineConfig config(PolicyKind policy, ApplyMode apply, CombineMode combine) {
    EngineConfig config;
    config.cluster = {3, 1};
    config.total_iterations = 100;
    config.policy.kind = policy;
    config.policy.threshold = 2;
    config.apply = apply;
    config.combine = combine;
    return config;
  }

  Engine engine_;
  std::vector<Action> actions_;
};

using List = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("a_gradient_misses_what_was_applied_since_its_parameters_were_read") {
  Counted run(PolicyKind::kAsp, ApplyMode::kEager, CombineMode::kEach);
  CHECK(run.step(kWorkerA, 0, 0, 0) == List{0});
  CHECK(run.step(kWorkerB, 0, 0, 0) == List{1});
  CHECK(run.step(kWorkerA, 1, 0, 2) == List{0});
  CHECK(run.step(kWorkerC, 0, 0, 0) == List{3});
}

TEST_CASE("its_workers_own_updates_were_in_them_and_are_not_missed") {
  Counted run(PolicyKind::kAsp, ApplyMode::kEager, CombineMode::kEach);
  CHECK(run.step(kWorkerA, 0, 0, 0) == List{0});
  CHECK(run.step(kWorkerB, 0, 0, 0) == List{1});
  // A goes on with what it had: revision 0 and its own gradient. B's is missing.
  CHECK(run.step(kWorkerA, 1, 0, 0, 1) == List{1});
  CHECK(run.step(kWorkerA, 2, 0, 0, 2) == List{1});
  CHECK(run.step(kWorkerA, 3, 0, 3, 1) == List{0});
}

TEST_CASE("a_clocks_gradients_each_miss_those_applied_before_them_in_it") {
  Counted run(PolicyKind::kBsp, ApplyMode::kVersioned, CombineMode::kEach);
  for (std::int64_t clock = 0; clock < 2; ++clock) {
    CHECK(run.step(kWorkerC, clock, clock, 3 * clock) == List{});
    CHECK(run.step(kWorkerA, clock, clock, 3 * clock) == List{});
    CHECK(run.step(kWorkerB, clock, clock, 3 * clock) == List{0, 1, 2});
  }
}

TEST_CASE("a_gradient_in_a_mean_misses_versions") {
  Counted run(PolicyKind::kSsp, ApplyMode::kVersioned, CombineMode::kMean);
  for (std::int64_t clock = 0; clock < 3; ++clock) {
    CHECK(run.step(kWorkerA, clock, 0, 0, clock) == List{});
    CHECK(run.step(kWorkerB, clock, 0, 0, clock) == List{});
  }
  CHECK(run.step(kWorkerC, 0, 0, 0) == List{0, 0, 0});
  CHECK(run.step(kWorkerC, 1, 1, 3) == List{1, 1, 0});
  CHECK(run.step(kWorkerC, 2, 1, 3, 1) == List{2, 2, 1});
}

TEST_CASE("a_gradient_whose_report_is_lost_counts_as_old_as_it_can_be") {
  Counted run(PolicyKind::kAsp, ApplyMode::kEager, CombineMode::kEach);
  run.step(kWorkerA, 0, 0, 0);
  run.step(kWorkerB, 0, 0, 1);
  run.step(kWorkerA, 1, 0, 2);
  run.take(GradientArrived{ShardId(0), kWorkerA, Clock(2), 32, ""});
  CHECK(run.take(Lost{NodeId(0)}) == List{1});  // its last one was computed with revision 2; now there are 3
}

// Its caches are empty, and its first grant asks for the version of the min clock.
TEST_CASE("one_who_has_come_late_knows_at_least_the_revision_with_which_the_min_clocks_version_begins") {
  Counted run(PolicyKind::kSsp, ApplyMode::kEager, CombineMode::kEach);
  run.take(Lost{NodeId(2)});
  std::int64_t revision = 0;
  for (std::int64_t clock = 0; clock < 10; ++clock) {
    CHECK(run.step(kWorkerA, clock, clock, revision) == List{0});
    CHECK(run.step(kWorkerB, clock, clock, ++revision) == List{0});
    ++revision;
  }
  CHECK(run.step(kWorkerA, 10, 10, 20) == List{0});
  run.take(Joined{kWorkerC});  // at clock 10: version 10 begins with revision 20; now there are 21
  run.take(GradientArrived{ShardId(0), kWorkerC, Clock(10), 32, ""});
  CHECK(run.take(Lost{NodeId(2)}) == List{1});
}

TEST_CASE("more_own_updates_than_a_snapshot_may_lack_are_refused") {
  Counted run(PolicyKind::kAsp, ApplyMode::kEager, CombineMode::kEach);
  run.step(kWorkerA, 0, 0, 0);
  run.take(Counted::report(kWorkerA, 1, 0, 1, 2));
  CHECK(run.rejected().find("2 own updates besides, of which version 0 lacks at most 1") !=
        std::string::npos);
  run.take(Counted::report(kWorkerA, 1, 0, 1, -1));
  CHECK(run.rejected().find("-1 own updates") != std::string::npos);
  CHECK(run.step(kWorkerA, 1, 0, 1, 0) == List{0});  // nothing had changed
}

TEST_CASE("the_rate_is_divided_by_the_staleness_from_two_on") {
  for (const auto& [staleness, divisor] : {std::pair{0, 1.0}, {1, 1.0}, {2, 2.0}, {3, 3.0}, {40, 40.0}}) {
    CHECK(staleness_divisor(StalenessScaling::kInverse, staleness) == divisor);
    CHECK(staleness_divisor(StalenessScaling::kNone, staleness) == 1.0);
  }
  CHECK(staleness_divisor(StalenessScaling::kInverseRoot, 0) == 1.0);
  CHECK(staleness_divisor(StalenessScaling::kInverseRoot, 3) == 2.0);
}

}  // namespace paceline::sync
