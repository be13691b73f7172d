// Hundreds of random runs whose shards have two servers each (server/replicas): the one that serves dies at
// any moment, in the middle of a turn too, or is deposed, or loses the other one; nodes and other servers
// lose their connections, die, leave, come late or come back. What must hold is what holds without replicas
// (authority_checker.h, node_model.h, end_checks.h), and acknowledged.h. A failure prints its seed;
// tests/seeds.h says how to run that one alone.
#include <catch2/catch.hpp>

#include "tests/sim/kept_seeds.h"
#include "tests/sim/replicas/replicated_run.h"
#include "tests/sim/run_seeds.h"

namespace paceline::test {

TEST_CASE("whichever_server_dies_the_other_goes_on_and_nothing_acknowledged_is_lost") {
  const testing::Seeds range = testing::seeds(1500);
  ReplicaFaults faults;
  run_seeds(range, kKeptOfReplicas, [&](std::uint64_t seed) -> std::string {
    const ReplicaPlan plan = replica_plan_of(seed);
    const Violations violations = simulate(plan, &faults);
    if (violations.empty()) return {};
    std::string text = plan.describe();
    for (const std::string& violation : violations) text += "\n  " + violation;
    return text;
  });
  if (!range.are_the_suites()) return;
  CHECK(faults.deaths > 500);
  CHECK(faults.in_turns > 80);
  CHECK(faults.in_telling > 80);
  CHECK(faults.in_release > 80);
  CHECK(faults.deposed > 150);
  CHECK(faults.taken_over > 700);
  CHECK(faults.authorities_taken_over > 300);
  CHECK(faults.half_turns > 40);
  CHECK(faults.uncommitted > 25);
  CHECK(faults.never_released > 1000);
  CHECK(faults.links_cut > 150);
  CHECK(faults.followers_died > 150);
  CHECK(faults.gone_on_alone > 300);
  CHECK(faults.followed_again > 150);
  CHECK(faults.history > 800);
  CHECK(faults.both_lost > 70);
  CHECK(faults.nodes_gone_on > 1800);
  CHECK(faults.shards_gone_on > 800);
  CHECK(faults.retransmitted_by_nodes > 3000);
  CHECK(faults.retransmitted_to_nodes > 1800);
  CHECK(faults.retransmitted_by_servers > 1000);
  CHECK(faults.files_compared > 1200);
  CHECK(faults.followers_compared > 400);
}

TEST_CASE("the_same_seed_meets_the_same_faults_of_replicas") {
  ReplicaFaults once, again;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) simulate(replica_plan_of(seed), &once);
  for (std::uint64_t seed = 1; seed <= 50; ++seed) simulate(replica_plan_of(seed), &again);
  CHECK(once == again);
}

}  // namespace paceline::test
