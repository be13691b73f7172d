// Links that set a simulated run's pace: bytes and bandwidth say by how much.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "simulate/message_sizes.h"
#include "tests/unit/simulate_fixture.h"

namespace paceline::test {
namespace {

using simulate::Outcome;

TEST_CASE("a_server_s_link_that_is_too_narrow_sets_the_pace_k_gradients_and_k_answers_a_clock") {
  const std::vector<std::string> given{"sync.policy=bsp", "cluster.nodes=4", "train.total_iterations=40",
                                       "simulate.compute.mean=1ns", "simulate.network.server_bandwidth=1MiB"};
  const simulate::ShardSizes sizes = simulate::message_sizes(plain_config(given).cluster, kPlainFloats)[0];
  const double per_second = 1 << 20;
  // The start's parameters, then up and down ten times, but for the last clock's answers.
  const double bytes = 4.0 * 10.0 * static_cast<double>(sizes.gradient.bytes + sizes.parameters.bytes);
  const Outcome run = simulated(given);
  CHECK(run.summary.wall_seconds == Approx(bytes / per_second).epsilon(1e-6));
  check_accounted(run);
  // Twice the nodes, each with half as many iterations: the same bytes in the same time.
  std::vector<std::string> more = given;
  more[1] = "cluster.nodes=8";
  CHECK(simulated(more).summary.wall_seconds == Approx(run.summary.wall_seconds).epsilon(1e-6));
}

TEST_CASE("a_node_with_a_slow_link_sets_bsp_s_pace_and_under_asp_the_others_do_not_wait_for_it") {
  const std::vector<std::string> given{"cluster.nodes=3", "train.total_iterations=30",
                                       "simulate.network.bandwidth=[null, 1MiB, null]"};
  const simulate::ShardSizes sizes = simulate::message_sizes(plain_config(given).cluster, kPlainFloats)[0];
  const double there = static_cast<double>(sizes.gradient.bytes) / (1 << 20);
  const double back = static_cast<double>(sizes.parameters.bytes) / (1 << 20);
  std::vector<std::string> bsp = given, asp = given;
  bsp.emplace_back("sync.policy=bsp");
  asp.insert(asp.end(), {"sync.policy=asp", "sync.refresh_clocks=1"});
  // Its parameters come, it computes, its gradient goes; the last clock's answer is nobody's.
  const Outcome lockstep = simulated(bsp);
  CHECK(lockstep.summary.wall_seconds == Approx(10 * (back + 0.1 + there)).epsilon(1e-6));
  CHECK(barrier(lockstep, 1) == 0.0);
  // The others have theirs at once, and wait for its way back and there.
  CHECK(barrier(lockstep, 0) == Approx(9 * (there + back)).epsilon(1e-6));
  const Outcome alone = simulated(asp);
  // It computes with what it has while newer parameters are on their way; its gradients have to go.
  CHECK(alone.summary.wall_seconds == Approx(back + 10 * (0.1 + there)).epsilon(1e-6));
  for (const std::size_t worker : {0, 2}) {
    std::int64_t all = 0;
    for (const PhaseStat& phase : alone.phases[worker].totals.phases) all += phase.total_ns;
    CHECK(all == 10 * 100'000'000);
  }
  check_accounted(lockstep);
  check_accounted(alone);
}

// 2 nodes halve 30,730 floats: parts of 15,376 and 15,354. The larger goes there and back in 2 x 61.504 ms.
TEST_CASE("an_all_reduce_takes_the_time_of_its_table_and_a_grant_and_a_report") {
  const Outcome run = simulated({"sync.policy=bsp", "exchange.kind=allreduce", "exchange.algorithm=ring",
                                 "simulate.network.latency=1ms", "simulate.network.bandwidth=1000000"});
  CHECK(run.summary.wall_seconds == Approx(10 * (0.1 + 2 * 0.061504 + 4 * 0.001)));
  CHECK(run.summary.bytes_reduced == 10 * 2 * kPlainFloats * 4);
  CHECK((run.summary.bytes_pushed == 0 && run.summary.bytes_pulled == 0));
  CHECK((run.summary.iterations == 20 && run.summary.final_version == Version(10)));
  check_accounted(run);
  // Where nothing takes time but computing, it is as with servers.
  const Outcome at_once =
      simulated({"sync.policy=bsp", "exchange.kind=allreduce", "simulate.compute.slowdown=[1, 2.5]"});
  CHECK(at_once.summary.wall_seconds == Approx(10 * 0.25));
}

TEST_CASE("what_an_all_reduce_cannot_be_simulated_with_is_refused_by_its_key") {
  const auto refusal = [](const std::string& given) {
    return simulate::simulate(plain_config({"sync.policy=bsp", "exchange.kind=allreduce", given}))
        .status()
        .message();
  };
  CHECK_THAT(refusal("simulate.mode=training"), Catch::Matchers::StartsWith("simulate.mode: "));
  CHECK_THAT(refusal("simulate.events=[{at: 1s, node: 0, kind: crash}]"),
             Catch::Matchers::StartsWith("simulate.events: "));
}

}  // namespace
}  // namespace paceline::test
