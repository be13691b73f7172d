// Thousands of random runs of the real core: every policy, apply mode, share and number of shards, with
// jitter, duplicates, NaN, nodes that leave or die half-way through a push, come late or come back,
// connections that break and stay cut, nodes cut off for longer than their lease, servers that die and are
// resumed, and stops. What must hold is in authority_checker.h and node_model.h. A failure prints its seed;
// tests/seeds.h says how to run that one alone.
#include <catch2/catch.hpp>
#include <map>

#include "common/config/names.h"
#include "tests/sim/kept_seeds.h"
#include "tests/sim/run_seeds.h"
#include "tests/sim/world.h"

namespace paceline::test {

TEST_CASE("whatever_happens_every_guarantee_holds_and_every_run_ends") {
  const testing::Seeds range = testing::seeds(4000);
  std::map<PolicyKind, int> per_policy;
  int with_joiners = 0, turning_eager = 0;
  Faults faults;
  run_seeds(range, kKeptOfSim, [&](std::uint64_t seed) -> std::string {
    const RunPlan plan = plan_of(seed);
    ++per_policy[plan.config.policy.kind];
    if (plan.turns_eager()) ++turning_eager;
    const bool returns =
        !plan.returns_after_ns.empty() && !(plan.dies_at_ns.empty() && plan.leaves_at.empty());
    if (returns || !plan.comes_at_ns.empty()) ++with_joiners;
    const Violations violations = simulate(plan, nullptr, &faults);
    if (violations.empty()) return {};
    std::string text = plan.describe();
    for (const std::string& violation : violations) text += "\n  " + violation;
    return text;
  });
  if (!range.are_the_suites()) return;
  CHECK(per_policy.size() == EnumNames<PolicyKind>::table.size());
  CHECK(with_joiners > 500);
  CHECK(turning_eager > 100);
  CHECK(faults.nodes_cut > 2000);
  CHECK(faults.shards_cut > 200);
  CHECK(faults.messages_lost > 2000);
  CHECK(faults.gone_on > 1000);
  CHECK(faults.retransmitted_by_nodes > 1000);
  CHECK(faults.retransmitted_to_nodes > 500);
  CHECK(faults.retransmitted_by_servers > 500);
  CHECK(faults.lost_by_lease > 100);
  CHECK(faults.back_after_lease > 20);
  CHECK(faults.server_crashes > 500);
  CHECK(faults.quiesced > 200);
  CHECK(faults.done_again > 500);
  CHECK(faults.ahead > 100);
  CHECK(faults.grants_ahead > 2000);
}

// One node, one thread, nothing lost: 40 iterations under `kind`.
Traffic traffic_of(PolicyKind kind, ApplyMode apply, std::optional<std::int64_t> refresh_clocks) {
  RunPlan plan;
  plan.seed = 1;
  plan.config.shards = 2;
  plan.config.policy.kind = kind;
  plan.config.apply = apply;
  plan.config.combine = CombineMode::kEach;
  plan.config.total_iterations = 40;
  plan.refresh_clocks = refresh_clocks;
  plan.slowdown = {1.0};
  Traffic traffic;
  CHECK(simulate(plan, &traffic).empty());
  return traffic;
}

TEST_CASE("an_iteration_is_one_round_trip_its_pull_goes_with_its_push") {
  // One pull at the start and one after each push; a version that came into being with the push is not
  // pulled again.
  CHECK(traffic_of(PolicyKind::kBsp, ApplyMode::kVersioned, 1).pulls == 41);
  CHECK(traffic_of(PolicyKind::kSsp, ApplyMode::kVersioned, 1).pulls == 41);
  CHECK(traffic_of(PolicyKind::kSsp, ApplyMode::kEager, 1).pulls == 41);
  CHECK(traffic_of(PolicyKind::kAsp, ApplyMode::kEager, 1).pulls == 41);
  CHECK(traffic_of(PolicyKind::kAsp, ApplyMode::kEager, 4).pulls <= 13);
}

TEST_CASE("only_when_required_most_iterations_pull_nothing") {
  CHECK(traffic_of(PolicyKind::kSsp, ApplyMode::kVersioned, std::nullopt).pulls < 20);
}

TEST_CASE("the_same_seed_meets_the_same_faults") {
  Faults once, again;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) simulate(plan_of(seed), nullptr, &once);
  for (std::uint64_t seed = 1; seed <= 100; ++seed) simulate(plan_of(seed), nullptr, &again);
  CHECK(once == again);
}

TEST_CASE("the_same_seed_gives_the_same_plan") {
  CHECK(plan_of(7).describe() == plan_of(7).describe());
  CHECK(plan_of(7).describe() != plan_of(8).describe());
}

}  // namespace paceline::test
