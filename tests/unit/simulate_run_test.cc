// Whole simulated runs whose times can be worked out by hand.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "simulate/compute_times.h"
#include "tests/unit/simulate_fixture.h"

namespace paceline::test {
namespace {

using simulate::Outcome;

const std::string kSlowdown = "simulate.compute.slowdown=[1, 2.5]";
const std::string kLognormal = "simulate.compute.distribution=lognormal";

TEST_CASE("under_bsp_every_clock_takes_as_long_as_the_slowest_and_the_fast_wait_for_the_rest") {
  const Outcome run = simulated({"sync.policy=bsp", kSlowdown});
  CHECK(run.summary.wall_seconds == Approx(10 * 0.25));
  // The fast one waits for 150 ms behind each of its ten iterations but the last.
  CHECK(barrier(run, 0) == Approx(9 * 0.15));
  CHECK(barrier(run, 1) == 0.0);
  CHECK(run.summary.iterations == 20);
  CHECK(run.summary.final_version == Version(10));
  CHECK(run.summary.max_grant_gap == Staleness(0));
  // One pull for each node at the start, one after each push.
  CHECK(run.summary.pulls == 2 * 11);
  check_accounted(run);
}

TEST_CASE("under_bsp_the_wall_is_the_sum_over_clocks_of_the_longest_computation") {
  const std::vector<std::string> given{"sync.policy=bsp",
                                       kLognormal,
                                       "simulate.compute.cv=0.8",
                                       "cluster.nodes=5",
                                       "cluster.threads_per_node=2",
                                       "train.total_iterations=300",
                                       "simulate.compute.slowdown=[1,1,1,1,1.4]"};
  const auto times = simulate::make_compute_times(plain_config(given));
  std::int64_t expected = 0;
  for (std::int64_t c = 0; c < 30; ++c) {
    std::int64_t longest = 0;
    for (std::uint32_t r = 0; r < 10; ++r)
      longest = std::max<std::int64_t>(longest, times->length(Rank(r), Clock(c)).count());
    expected += longest;
  }
  CHECK(std::llround(simulated(given).summary.wall_seconds * 1e9) == expected);
}

TEST_CASE("with_a_backup_worker_every_clock_takes_as_long_as_the_last_that_is_waited_for") {
  // Two of three nodes take 100 ms and one 260 ms: the slow one is late at each clock, and never in time.
  const Outcome run = simulated({"sync.policy=backup", "cluster.nodes=3", "train.total_iterations=20",
                                 "simulate.compute.slowdown=[1, 1, 2.6]"});
  CHECK(run.summary.final_version == Version(10));
  CHECK(run.summary.iterations == 20);
  // It computes from 0, 260, 520 and 780 ms on, each time for nothing, and then the others are done.
  CHECK(run.summary.dropped == 4);
  CHECK(run.summary.wall_seconds == Approx(1.04));
  CHECK(run.summary.max_grant_gap == Staleness(0));
  check_accounted(run);
}

TEST_CASE("balanced_batches_let_every_worker_take_as_long") {
  // 1 ms a sample: 128 each are 204.8 ms a clock; 152 152 112 96 are 153.6 ms.
  const std::vector<std::string> given{"sync.policy=bsp",
                                       "cluster.nodes=4",
                                       "train.batch_size=128",
                                       "train.total_iterations=400",
                                       "simulate.compute.mean=128ms",
                                       "simulate.compute.slowdown=[1,1,1.3,1.6]"};
  CHECK(simulated(given).summary.wall_seconds == Approx(100 * 0.2048));
  std::vector<std::string> balanced = given;
  balanced.push_back("train.batch_balance=speed");
  const Outcome run = simulated(balanced);
  // The first four clocks are as they were: nobody has been measured.
  CHECK(run.summary.wall_seconds == Approx(4 * 0.2048 + 96 * 0.1536));
  CHECK(run.summary.iterations == 400);
  check_accounted(run);
}

// The fast wait once a round, and half a second is nothing to a round of five mini-batches that it is to none.
TEST_CASE("with_local_steps_a_round_lasts_as_long_as_its_mini_batches_and_is_exchanged_once") {
  const std::vector<std::string> given{"sync.policy=bsp", kSlowdown};
  std::vector<std::string> rounds = given;
  for (const char* const more : {"train.local_steps=5", "train.inner_optimizer.kind=sgd"})
    rounds.emplace_back(more);
  const Outcome gradients = simulated(given);
  const Outcome run = simulated(rounds);
  CHECK(run.summary.wall_seconds == Approx(10 * 0.25));
  CHECK(barrier(run, 0) == Approx(5 * 0.15));  // after the first of its two rounds
  CHECK(run.summary.iterations == 20);
  CHECK(run.summary.rounds == 4);
  CHECK_FALSE(gradients.summary.rounds);
  CHECK(run.summary.final_version == Version(2));
  CHECK(run.summary.bytes_pushed * 5 == gradients.summary.bytes_pushed);
  CHECK(run.summary.pulls == 2 * 3);
  const PhaseTotals& worker = run.phases.front().totals;
  CHECK((worker[Phase::kComputeGrads].count == 10 && worker[Phase::kStep].count == 2));
  check_accounted(run);
}

// Steps of 100 and 250 ms: three and one of them fit into 399 ms, four and one into 400, and of five none is left out.
TEST_CASE("rounds_that_end_by_time_have_the_mini_batches_that_fit_into_it_and_one_at_least") {
  const auto [time, slow_round, fast, slow] =
      GENERATE(table<std::string, double, int, int>({{"100ms", 0.25, 1, 1},
                                                     {"399ms", 0.3, 3, 1},
                                                     {"400ms", 0.4, 4, 1},
                                                     {"500ms", 0.5, 5, 2},
                                                     {"1h", 1.25, 5, 5}}));
  CAPTURE(time);
  const Outcome run = simulated({"sync.policy=bsp", "train.local_steps=5", "train.inner_optimizer.kind=sgd",
                                 kSlowdown, "train.local_time=" + time});
  CHECK(run.summary.wall_seconds == Approx(2 * slow_round));
  CHECK((run.summary.iterations == 20 && run.summary.rounds == 4));
  CHECK(run.phases[0].totals[Phase::kComputeGrads].count == 2 * fast);
  CHECK(run.phases[1].totals[Phase::kComputeGrads].count == 2 * slow);
  check_accounted(run);
}

// Ten local steps of 128 ms: 12, 12, 9 and 7 of them take 1536, 1536, 1498 and 1434 ms.
TEST_CASE("rounds_shared_out_by_speed_end_together_and_have_as_many_mini_batches_as_before") {
  const Outcome run = simulated({"sync.policy=bsp", "cluster.nodes=4", "train.total_iterations=4000",
                                 "train.local_steps=10", "train.inner_optimizer.kind=sgd",
                                 "train.local_balance=speed", "simulate.compute.distribution=constant",
                                 "simulate.compute.mean=128ms", "simulate.compute.slowdown=[1,1,1.3,1.6]"});
  // The first four rounds are as they were: nobody has been measured.
  CHECK(run.summary.wall_seconds == Approx(4 * 2.048 + 96 * 1.536));
  CHECK((run.summary.iterations == 4000 && run.summary.rounds == 400));
  check_accounted(run);
}

TEST_CASE("with_even_shares_asp_ends_when_the_slowest_worker_has_done_its_own") {
  const std::vector<std::string> given{"sync.policy=asp", kLognormal, "cluster.nodes=4",
                                       "train.total_iterations=100",
                                       "simulate.compute.slowdown=[1,1,1.3,1.6]"};
  const auto times = simulate::make_compute_times(plain_config(given));
  std::int64_t longest = 0;
  for (std::uint32_t r = 0; r < 4; ++r) {
    std::int64_t sum = 0;
    for (std::int64_t c = 0; c < 25; ++c) sum += times->length(Rank(r), Clock(c)).count();
    longest = std::max(longest, sum);
  }
  const Outcome run = simulated(given);
  CHECK(std::llround(run.summary.wall_seconds * 1e9) == longest);
  CHECK(run.summary[Phase::kBarrier].total_seconds == 0.0);
  check_accounted(run);
}

TEST_CASE("with_a_pool_asp_gives_the_fast_more_and_ends_sooner") {
  const Outcome even = simulated({"sync.policy=asp", kSlowdown});
  const Outcome pool = simulated({"sync.policy=asp", kSlowdown, "train.share=pool"});
  CHECK(even.summary.wall_seconds == Approx(2.5));
  // 0.1 s and 0.25 s an iteration: after 1.4 s 14 and 5 are done, and both are in one more.
  CHECK(pool.summary.wall_seconds == Approx(1.5));
  CHECK(pool.summary.iterations == 20);
}

TEST_CASE("under_ssp_the_fast_lead_by_s_and_then_go_at_the_slowest_s_pace") {
  // The fast one is granted clock s at once, clock s + k when the slow one has completed k.
  const Outcome run = simulated({"sync.policy=ssp", "sync.threshold=3", kSlowdown});
  CHECK(run.summary.wall_seconds == Approx(2.5));
  CHECK(run.summary.max_grant_gap == Staleness(3));
  CHECK(run.summary.max_clock_gap == Staleness(4));
  // Its last grant, for clock 9, comes when the slow one is at 6, after 1.5 s; by then it has computed 0.9 s.
  CHECK(barrier(run, 0) == Approx(1.5 - 0.9));
  CHECK(barrier(run, 1) == 0.0);
  check_accounted(run);
}

TEST_CASE("jitter_that_evens_out_costs_less_under_a_larger_threshold") {
  double before = 1e9;
  for (const char* s : {"0", "1", "4", "16"}) {
    const Outcome run =
        simulated({"sync.policy=ssp", std::string("sync.threshold=") + s, kLognormal,
                   "simulate.compute.cv=0.6", "cluster.nodes=8", "train.total_iterations=1600"});
    INFO("s = " << s);
    CHECK(run.summary.wall_seconds < before);
    CHECK(run.summary.max_grant_gap <= Staleness(std::stoi(s)));
    before = run.summary.wall_seconds;
  }
}

TEST_CASE("an_iteration_is_one_round_trip_of_latency_and_its_exchange_is_told_apart") {
  const Outcome run = simulated({"sync.policy=bsp", "simulate.network.latency=2ms"});
  // First the parameters: a grant, a pull and an answer; then compute, push, grant. The parameters come with
  // the grant. The last grant is the news of the end, which the wall at the authority does not wait for.
  CHECK(run.summary.wall_seconds == Approx(0.006 + 10 * 0.1 + 9 * 0.004 + 0.002));
  const PhaseTotals& worker = run.phases[0].totals;
  CHECK(worker[Phase::kPsApplyGrads].total_ns == 10 * 4'000'000);
  CHECK(worker[Phase::kBarrier].total_ns == 0);
  CHECK(run.summary.server_reads == run.summary.parameter_reads);
  check_accounted(run);
}

TEST_CASE("what_the_server_s_loop_does_for_one_worker_the_others_wait_for") {
  // 30,730 floats at 100 ns are 3.073 ms a gradient; a version is two of them, applied after its grants.
  const Outcome run = simulated({"sync.policy=bsp", "simulate.costs.apply=100"});
  CHECK(run.summary.wall_seconds == Approx(10 * 0.1 + 9 * 2 * 0.003073));
  CHECK(run.summary[Phase::kPsParam].total_seconds == Approx(2 * 9 * 2 * 0.003073));
}

TEST_CASE("an_emulated_configuration_simulates_the_lengths_of_the_real_run") {
  Result<RunConfig> config = parse_config(
      "train: {total_iterations: 20, batch_size: 8}\ncluster: {nodes: 2}\n"
      "emulate: {base_step: 50ms, slowdown: [1, 3], jitter: exponential, jitter_spread: 0.5}\n"
      "simulate: {network: {latency: 0s}, costs: {message: 0s, apply: 0, local_apply: 0, copy: 0}}\n",
      "emulated", {});
  REQUIRE(config);
  const auto times = simulate::make_compute_times(*config);
  std::int64_t expected = 0;
  for (std::int64_t c = 0; c < 10; ++c)
    expected += std::max(times->length(Rank(0), Clock(c)), times->length(Rank(1), Clock(c))).count();
  const auto run = simulate::simulate(*config);
  REQUIRE(run);
  CHECK(std::llround(run->outcome.summary.wall_seconds * 1e9) == expected);
  // An emulated length counts from the iteration's start: latency hides in it, but for the exchange.
  REQUIRE(times->counts_from_start());
}

TEST_CASE("two_shards_answer_like_one_and_the_gradients_count_once") {
  const Outcome one = simulated({"sync.policy=ssp", kSlowdown});
  const Outcome two =
      simulated({"sync.policy=ssp", kSlowdown, "cluster.shards=2", "cluster.endpoints=[ipc:///a, ipc:///b]"});
  CHECK(two.summary.wall_seconds == one.summary.wall_seconds);
  CHECK(two.summary.iterations == 20);
  CHECK(two.summary.pulls == 2 * one.summary.pulls);
  check_accounted(two);
}

TEST_CASE("a_crashed_node_is_waited_for_until_its_lease_is_over_and_then_no_more") {
  const Outcome run = simulated({"sync.policy=bsp", "cluster.nodes=3", "train.total_iterations=30",
                                 "simulate.events=[{at: 250ms, node: 1, kind: crash}]"});
  // Two clocks whole; the third closes when the lease is over. What is left, iteration 7 last, takes two 11
  // clocks.
  CHECK(run.summary.wall_seconds == Approx(10.25 + 11 * 0.1));
  CHECK(run.summary.lost_nodes == 1);
  REQUIRE(run.summary.lost.size() == 1);
  CHECK(run.summary.lost[0] == "node 1: silent for 10 s, crashed at 0.25 s");
  CHECK(run.summary.status == "ok");
  CHECK(run.summary.iterations == 30);
  CHECK(run.summary.iterations_lost == 1);
  CHECK(run.phases.size() == 2);
  check_accounted(run);
}

TEST_CASE("a_node_that_joins_late_begins_at_the_min_clock_and_has_a_share_from_there_on") {
  const Outcome run = simulated({"sync.policy=bsp", "simulate.events=[{at: 450ms, node: 1, kind: join}]"});
  // Alone for clocks 0 to 3; clock 4 waits for the one who came in it; what is left, 14, takes two 7 clocks.
  CHECK(run.summary.wall_seconds == Approx(0.55 + 7 * 0.1));
  CHECK(run.summary.iterations == 20);
  CHECK(run.summary.final_version == Version(12));
  CHECK(barrier(run, 0) == Approx(0.05));
  CHECK(run.phases.at(1).totals[Phase::kComputeGrads].count == 8);
  check_accounted(run);
}

TEST_CASE("a_node_that_comes_back_before_its_lease_is_over_is_lost_at_once_and_goes_on") {
  const Outcome run =
      simulated({"sync.policy=bsp", "cluster.nodes=3", "train.total_iterations=30",
                 "simulate.events=[{at: 1s, node: 1, kind: join}, {at: 250ms, node: 1, kind: crash}]"});
  // The third clock closes when it comes; it takes part in the fourth. Of 30 iterations, one of them twice,
  // 19 are left then: 7 clocks.
  CHECK(run.summary.wall_seconds == Approx(1.1 + 7 * 0.1));
  CHECK(run.summary.iterations == 30);
  CHECK(run.summary.iterations_lost == 1);
  REQUIRE(run.summary.lost.size() == 1);
  CHECK(run.summary.lost[0] == "node 1: came back, crashed at 0.25 s");
  REQUIRE(run.phases.size() == 3);
  CHECK(run.phases[1].worker == WorkerId(1, 0));
  CHECK(run.phases[1].totals[Phase::kComputeGrads].count >= 7);  // since it came back
  check_accounted(run);
}

TEST_CASE("who_comes_back_has_nothing_in_its_caches_and_pulls_first") {
  const Outcome run =
      simulated({"sync.policy=asp", "train.total_iterations=200", "simulate.network.latency=10ms",
                 "cluster.lease=1s", "cluster.heartbeat=300ms", "sync.refresh_clocks=1000",
                 "simulate.events=[{at: 3s, node: 1, kind: crash}, {at: 6s, node: 1, kind: join}]"});
  CHECK(run.summary.iterations == 200);
  // Its first read waits for a pull, there and back; no other does.
  CHECK(run.phases.at(1).totals[Phase::kPsParam].total_ns == 20'000'000);
  CHECK(run.summary.server_reads == 2);
  check_accounted(run);
}

TEST_CASE("a_join_has_no_effect_when_training_is_over_or_stops") {
  const std::vector<std::string> given{"sync.policy=ssp", "simulate.events=[{at: 30s, node: 1, kind: join}]"};
  const Outcome alone = simulated(given);
  CHECK(alone.summary.iterations == 20);
  CHECK(alone.summary.wall_seconds == Approx(2.0));
  CHECK(alone.phases.size() == 1);
  std::vector<std::string> stopped = given;
  stopped[1] = "simulate.events=[{at: 520ms, node: 1, kind: join}]";
  stopped.emplace_back("run.max_seconds=510ms");
  CHECK(simulated(stopped).phases.size() == 1);
}

TEST_CASE("a_node_that_crashes_after_its_share_is_not_lost_and_what_it_did_counts") {
  const std::vector<std::string> given{"sync.policy=asp", "simulate.compute.slowdown=[1, 20]"};
  std::vector<std::string> crashes = given;
  crashes.emplace_back("simulate.events=[{at: 2s, node: 0, kind: crash}]");  // done after 1 s
  const Outcome whole = simulated(given);
  const Outcome run = simulated(crashes);
  CHECK(run.summary.wall_seconds == Approx(20.0));
  CHECK(run.summary.lost_nodes == 0);
  CHECK(run.summary.lost.empty());
  REQUIRE(run.phases.size() == 2);
  CHECK(run.phases[0].totals[Phase::kComputeGrads].total_ns == 1'000'000'000);
  CHECK(run.summary.parameter_reads == whole.summary.parameter_reads);
  // In the middle of its last computation it is lost, and its phases with it.
  crashes.back() = "simulate.events=[{at: 950ms, node: 0, kind: crash}]";
  const Outcome lost = simulated(crashes);
  CHECK(lost.summary.lost_nodes == 1);
  CHECK(lost.phases.size() == 1);
}

TEST_CASE("a_worker_that_nothing_follows_for_does_not_wait_for_the_parameters_it_asked_for") {
  // Gradients are half as large as the parameters that were asked for ahead of the last push.
  const Outcome run = simulated({"sync.policy=asp", "cluster.nodes=1", "train.total_iterations=2",
                                 "simulate.network.latency=1ms", "cluster.gradient_encoding=fp16",
                                 "simulate.network.server_bandwidth=128KiB"});
  const PhaseTotals& worker = run.phases.at(0).totals;
  std::int64_t sum = 0;
  for (const PhaseStat& phase : worker.phases) sum += phase.total_ns;
  // The wall begins with the grant's leaving, the phases with its arrival; both end with the last reply.
  CHECK(static_cast<double>(sum) * 1e-9 == Approx(run.summary.wall_seconds).margin(0.0011));
  check_accounted(run);
}

TEST_CASE("a_worker_that_goes_on_with_what_it_has_applies_its_gradients_and_makes_room_for_the_next") {
  const Outcome run = simulated({"sync.policy=asp", "cluster.nodes=1", "train.total_iterations=10",
                                 "sync.refresh_clocks=100", "simulate.costs.local_apply=100"});
  const PhaseStat& applied = run.phases.at(0).totals[Phase::kApplyGrads];
  // Nine reads after the first: one pass of 3.073 ms in two of them, then two each.
  CHECK(applied.count == 9);
  CHECK(applied.total_ns == (2 + 7 * 2) * 3'073'000);
  check_accounted(run);
}

TEST_CASE("a_run_of_emulated_steps_that_do_not_fit_is_invalid") {
  const std::vector<std::string> emulated{"simulate.compute.distribution=emulated",
                                          "simulate.compute.mean=null", "emulate.base_step=50ms"};
  CHECK(simulated(emulated).summary.status == "ok");
  std::vector<std::string> slow = emulated;
  slow.emplace_back("simulate.costs.batch=60ms");
  const Outcome run = simulated(slow);
  CHECK(run.summary.overruns == 20);
  CHECK(run.summary.status == "invalid");
  CHECK(run.summary.reason.starts_with("20 of 20 emulated steps"));
}

TEST_CASE("a_run_whose_every_node_crashes_has_failed") {
  const Outcome run =
      simulated({"sync.policy=ssp",
                 "simulate.events=[{at: 250ms, node: 1, kind: crash}, {at: 1s, node: 0, kind: crash}]"});
  CHECK(run.summary.status == "failed");
  CHECK(run.summary.reason == "every node was lost before its share was done");
  CHECK(run.summary.lost_nodes == 2);
}

TEST_CASE("dtssp_s_threshold_follows_the_assumed_metric_within_its_range") {
  const std::vector<std::string> given{"sync.policy=dtssp",
                                       "cluster.nodes=4",
                                       "train.total_iterations=4000",
                                       kLognormal,
                                       "sync.lpr.window_clocks=20",
                                       "simulate.metric.final_accuracy=0.9",
                                       "simulate.metric.half_samples=20000",
                                       "train.optimizer.lr=0.4",
                                       "train.optimizer.schedule.kind=poly"};
  const Outcome run = simulated(given);
  // Learning goes well at first: up. Then gains stay below 5 %: nothing moves it any more.
  std::int64_t highest = 0;
  for (const CurveRow& row : run.curve) {
    REQUIRE(row.threshold >= Threshold(3));
    REQUIRE(row.threshold <= Threshold(10));
    REQUIRE(row.learning_rate == Approx(0.4 * (1.0 - static_cast<double>(row.version.value - 1) / 1000.0)));
    highest = std::max(highest, row.threshold.value());
  }
  CHECK(run.curve.size() == 50);
  CHECK(highest > 3);
  CHECK(run.summary.max_grant_gap <= Staleness(highest));
  check_accounted(run);
}

TEST_CASE("a_run_that_switches_policies_takes_the_time_of_each_and_says_when") {
  const Outcome run =
      simulated({"sync.policy=switch", kSlowdown,
                 "sync.stages=[{policy: bsp, until: {version: 4}}, {policy: ssp, threshold: 3}]"});
  REQUIRE(run.summary.switches.size() == 2);
  CHECK(run.summary.switches[0].policy == "bsp");
  CHECK(run.summary.switches[0].version == Version(0));
  CHECK(run.summary.switches[0].threshold == Threshold(0));
  CHECK(run.summary.switches[1].policy == "ssp");
  CHECK(run.summary.switches[1].version == Version(4));
  CHECK(run.summary.switches[1].seconds == Approx(4 * 0.25));
  CHECK(run.summary.switches[1].threshold == Threshold(3));
  CHECK(run.summary.wall_seconds == Approx(2.5));
  // Held after each of the first three iterations, then only when it leads by three.
  CHECK(barrier(run, 0) == Approx(3 * 0.15 + 0.15 + (1.5 - 1.0 - 5 * 0.1)));
}

TEST_CASE("behind_bsp_asp_waits_for_nobody") {
  const Outcome run = simulated(
      {"sync.policy=switch", kSlowdown, "sync.stages=[{policy: bsp, until: {version: 4}}, {policy: asp}]"});
  REQUIRE(run.summary.switches.size() == 2);
  CHECK(run.summary.switches[1].policy == "asp");
  CHECK(run.summary.switches[1].version == Version(4));
  CHECK(run.summary.switches[1].seconds == Approx(4 * 0.25));
  CHECK(run.summary.switches[1].threshold.is_infinite());
  CHECK(barrier(run, 0) == Approx(4 * 0.15));  // after each of the first four iterations, and never again
}

TEST_CASE("max_seconds_ends_a_run_in_virtual_time") {
  const Outcome run = simulated({"sync.policy=asp", "run.max_seconds=1s"});
  // At 1 s both are done with their tenth and begin, or have begun, one more that nobody follows.
  CHECK(run.summary.wall_seconds == Approx(1.0).margin(0.11));
  CHECK(run.summary.status == "ok");
}

// What simulating costs, in a number that is the same everywhere.
TEST_CASE("an_iteration_is_a_dozen_events_however_many_workers_there_are") {
  for (const char* policy : {"bsp", "ssp", "asp"}) {
    INFO(policy);
    const Outcome run = simulated({std::string("sync.policy=") + policy, kLognormal, "cluster.nodes=250",
                                   "cluster.threads_per_node=4", "train.total_iterations=20000",
                                   "simulate.network.latency=100us", "simulate.network.bandwidth=1GiB",
                                   "simulate.network.server_bandwidth=10GiB"});
    CHECK(run.events < 14 * 20'000);
    CHECK(run.summary.iterations == 20'000);
  }
}

TEST_CASE("phases_add_up_whatever_takes_time") {
  for (const char* policy : {"bsp", "ssp", "asp"}) {
    for (const char* kind : {"sgd", "adam"}) {
      INFO(policy << " " << kind);
      const Outcome run = simulated(
          {std::string("sync.policy=") + policy, std::string("train.optimizer.kind=") + kind, kLognormal,
           "cluster.nodes=3", "cluster.threads_per_node=3", "cluster.shards=2",
           "cluster.endpoints=[ipc:///a, ipc:///b]", "train.total_iterations=450",
           "simulate.network.latency=300us", "simulate.network.server_bandwidth=50MiB",
           "simulate.network.bandwidth=20MiB", "simulate.costs.message=20us", "simulate.costs.copy=1",
           "simulate.costs.apply=2", "simulate.costs.local_apply=1", "simulate.costs.batch=1ms"});
      check_accounted(run);
      CHECK(run.summary.iterations == 450);
    }
  }
}

}  // namespace
}  // namespace paceline::test
