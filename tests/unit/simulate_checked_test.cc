// Simulated runs whose every decision an independent checker judges.
#include <catch2/catch.hpp>
#include <initializer_list>
#include <string>
#include <vector>

#include "simulate/computation.h"
#include "simulate/world.h"
#include "tests/sim/authority_checker.h"
#include "tests/unit/simulate_fixture.h"

namespace paceline::test {
namespace {

using simulate::Outcome;

// Hands everything that the core is told and decides to the checker of tests/sim.
class CheckingWatcher final : public simulate::Watcher {
 public:
  explicit CheckingWatcher(const sync::EngineConfig& config) : checker_(config, violations) {}
  void before(const sync::Event& event, Ticks now) override { checker_.before(event, now); }
  void after(const std::vector<sync::Action>& actions) override { checker_.after(actions); }
  void at_end(const sync::Engine& engine) { checker_.at_end(engine); }
  Violations violations;

 private:
  AuthorityChecker checker_;
};

// The plan's run, of which no decision was wrong.
Outcome judged(const simulate::Plan& plan) {
  CheckingWatcher watcher(plan.engine);
  simulate::TimedComputation computation(plan);
  simulate::World world(plan, computation, &watcher);
  Result<Outcome> run = world.run();
  REQUIRE(run);
  watcher.at_end(world.engine());
  CHECK(watcher.violations == Violations{});
  return *std::move(run);
}

// Four nodes of two threads, three shards, 800 iterations of unequal lengths.
std::vector<std::string> run_with(const std::string& policy, const std::string& share,
                                  std::initializer_list<std::string> more) {
  std::vector<std::string> all{"sync.policy=" + policy,
                               "train.share=" + share,
                               "simulate.compute.distribution=lognormal",
                               "simulate.compute.cv=0.8",
                               "cluster.nodes=4",
                               "cluster.threads_per_node=2",
                               "cluster.shards=3",
                               "cluster.endpoints=[ipc:///a, ipc:///b, ipc:///c]",
                               "train.total_iterations=800",
                               "simulate.network.latency=1ms",
                               "simulate.costs.message=50us",
                               "simulate.costs.apply=20",
                               "simulate.metric.final_accuracy=0.9",
                               "sync.lpr.window_clocks=5"};
  all.insert(all.end(), more);
  return all;
}

TEST_CASE(
    "with_nodes_that_crash_come_late_and_come_back_every_iteration_is_applied_once_and_in_the_same_way") {
  const std::string events =
      "simulate.events=[{at: 1s, node: 1, kind: crash}, {at: 1500ms, node: 0, kind: join}, {at: 1700ms, "
      "node: 1, kind: join}, {at: 2s, node: 3, kind: crash}, {at: 5s, node: 3, kind: join}, {at: 6s, node: "
      "1, kind: crash}, {at: 6100ms, node: 1, kind: join}]";
  for (const char* policy : {"bsp", "ssp", "dssp", "dtssp", "random_walk", "asp"}) {
    for (const char* share : {"even", "pool"}) {
      INFO(policy << " " << share);
      const auto given = run_with(policy, share, {"cluster.lease=1s", "cluster.heartbeat=300ms", events});
      const auto plan = simulate::make_plan(plain_config(given));
      REQUIRE(plan);
      const Outcome ran = judged(*plan);
      CHECK(ran.summary.iterations == 800);
      CHECK(ran.summary.lost_nodes == 3);
      CHECK(ran.summary.iterations_lost >= 3);
      CHECK(ran.phases.size() == 8);
      check_accounted(ran);
      Outcome again = simulated(given);
      again.summary.simulated_seed.reset();
      CHECK(to_json(again.summary) == to_json(ran.summary));
    }
  }
}

TEST_CASE("every_decision_of_a_simulated_run_is_right_in_the_eyes_of_an_independent_checker") {
  const std::string two_die =
      "simulate.events=[{at: 2s, node: 1, kind: crash}, {at: 3s, node: 3, kind: crash}]";
  for (const char* policy : {"bsp", "ssp", "dssp", "dtssp", "random_walk", "asp", "backup"}) {
    for (const char* share : {"even", "pool"}) {
      INFO(policy << " " << share);
      const auto plan = simulate::make_plan(plain_config(run_with(policy, share, {two_die})));
      REQUIRE(plan);
      const Outcome run = judged(*plan);
      CHECK(run.summary.lost_nodes == 2);
      check_accounted(run);
    }
  }
}

}  // namespace
}  // namespace paceline::test
