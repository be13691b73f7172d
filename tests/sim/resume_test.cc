// Thousands of random runs that are saved, thrown away and resumed from bytes: every policy, apply mode,
// share and kind of mini-batch, with nodes lost before the save and after. What must hold is in
// resumed_account.h. A failure prints its seed; tests/seeds.h says how to run that one alone.
#include <catch2/catch.hpp>
#include <map>
#include <tuple>

#include "common/checkpoint/engine_state.h"
#include "common/config/names.h"
#include "common/random.h"
#include "tests/sim/kept_seeds.h"
#include "tests/sim/resumed_run.h"
#include "tests/sim/run_plan.h"
#include "tests/sim/run_seeds.h"

namespace paceline::test {
namespace {

Result<sync::EngineState> through_bytes(const sync::EngineState& state) {
  return checkpoint::engine_state_from_bytes(checkpoint::to_bytes(state));
}

// What servers and workers are told to do, but for how long it was held.
auto received(const LoggedIteration& done) {
  const sync::Grant& g = done.grant;
  return std::tuple(g.worker, g.clock, g.iteration, g.threshold, g.min_clock, g.min_version, g.version,
                    g.revision, g.contributors, g.position, g.samples, g.clock_samples, g.staleness,
                    done.skipped, done.staleness);
}

}  // namespace

TEST_CASE("however_often_a_run_is_resumed_each_iteration_is_applied_once_and_every_guarantee_holds") {
  const testing::Seeds range = testing::seeds(4000);
  std::map<std::tuple<PolicyKind, ApplyMode, CombineMode, Share>, int> resumed;
  int by_speed = 0, lost_before = 0, applied_ahead = 0, turning_eager = 0, granted_ahead = 0;
  int stopped = 0, stopped_by_speed = 0;
  run_seeds(range, kKeptOfResume, [&](std::uint64_t seed) -> std::string {
    const ResumedPlan plan = resumed_plan_of(seed);
    const ResumedOutcome outcome = run_and_resume(plan, through_bytes);
    if (!outcome.violations.empty()) return plan_of(seed).describe() + "\n  " + outcome.violations.front();
    const sync::EngineConfig& config = plan.config;
    resumed[{config.policy.kind, config.apply, config.combine, config.share}] += outcome.crashes;
    if (config.batch_sizing == BatchSizing::kBySpeed) {
      by_speed += outcome.crashes;
      stopped_by_speed += outcome.stops;
    }
    stopped += outcome.stops;
    if (plan_of(seed).turns_eager()) turning_eager += outcome.crashes;
    if (outcome.ahead > 0) granted_ahead += outcome.crashes;
    lost_before += outcome.lost_before;
    if (outcome.applied_ahead) ++applied_ahead;
    return {};
  });
  if (!range.are_the_suites()) return;
  // bsp and backup 2 x 2; asp 1 x 2; the five others eager, or versioned with each or mean, 3 x 2.
  CHECK(resumed.size() == 4 + 4 + 2 + 5 * 6);
  for (const auto& [kind, times] : resumed) {
    INFO(name_of(std::get<0>(kind)) << " " << name_of(std::get<1>(kind)) << " " << name_of(std::get<2>(kind))
                                    << " " << name_of(std::get<3>(kind)));
    CHECK(times > 10);
  }
  CHECK(by_speed > 100);
  CHECK(stopped > 1000);
  CHECK(stopped_by_speed > 50);
  CHECK(turning_eager > 100);
  CHECK(granted_ahead > 100);
  CHECK(lost_before > 100);
  CHECK(applied_ahead > 100);
}

TEST_CASE("under_bsp_a_run_that_was_resumed_has_done_what_one_that_never_was_has_done") {
  const testing::Seeds range = testing::seeds(2000);
  int resumed = 0;
  run_seeds(range, kKeptOfResume, [&](std::uint64_t seed) -> std::string {
    ResumedPlan plan = resumed_plan_of(seed);
    if (plan.config.policy.kind != PolicyKind::kBsp || plan.config.batch_sizing != BatchSizing::kEqual) {
      return {};
    }
    plan.losses = false;
    plan.config.nodes_at_start.reset();
    const ResumedOutcome with = run_and_resume(plan, through_bytes);
    plan.crashes = 0;
    plan.stops = 0;
    plan.timing += 1'000'000;
    const ResumedOutcome without = run_and_resume(plan, through_bytes);
    const std::string name = plan_of(seed).describe();
    if (!with.violations.empty()) return name + "\n  resumed: " + with.violations.front();
    if (!without.violations.empty()) return name + "\n  " + without.violations.front();
    if (with.log.size() != without.log.size()) return name + "\n  another number of iterations";
    for (std::size_t i = 0; i < with.log.size(); ++i) {
      if (received(with.log[i]) != received(without.log[i]))
        return name + "\n  another grant, iteration " + std::to_string(i) + " of the log";
    }
    resumed += with.crashes;
    return {};
  });
  if (range.are_the_suites()) CHECK(resumed > 200);
}

}  // namespace paceline::test
