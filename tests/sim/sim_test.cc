// Thousands of random runs of the real core: every policy, apply mode, share and number of shards, with
// jitter, duplicates, NaN, nodes that leave or die half-way through a push, and stops. What must hold is in
// authority_checker.h and node_model.h. A failure prints its seed; to repeat it
// alone, make it first_seed and runs 1.
#include <catch2/catch.hpp>
#include <map>

#include "tests/sim/world.h"

namespace paceline::test {

TEST_CASE("whatever_happens_every_guarantee_holds_and_every_run_ends") {
  constexpr std::uint64_t first_seed = 1, runs = 4000;
  std::map<PolicyKind, int> per_policy;
  for (std::uint64_t seed = first_seed; seed < first_seed + runs; ++seed) {
    const RunPlan plan = plan_of(seed);
    ++per_policy[plan.config.policy.kind];
    const Violations violations = simulate(plan);
    if (violations.empty()) continue;
    std::string text;
    for (const std::string& violation : violations) text += "\n  " + violation;
    FAIL(plan.describe() << text);
  }
  CHECK(per_policy.size() == 4);
}

TEST_CASE("the_same_seed_gives_the_same_plan") {
  CHECK(plan_of(7).describe() == plan_of(7).describe());
  CHECK(plan_of(7).describe() != plan_of(8).describe());
}

}  // namespace paceline::test
