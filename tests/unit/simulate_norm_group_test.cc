// Norm groups in virtual time: what members wait for, and in training mode the very bits of real nodes.
#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "simulate/norm_groups.h"
#include "tests/process/network_run.h"
#include "tests/unit/simulate_fixture.h"
#include "tests/unit/training_fixture.h"

namespace paceline::test {
namespace {

RunConfig normalised_training(std::uint32_t nodes, std::uint32_t group, std::int64_t clocks) {
  RunConfig config =
      with_policy(training_config(nodes, 1), PolicyKind::kBsp, ApplyMode::kVersioned, CombineMode::kMean);
  config.train.total_iterations = clocks * nodes;
  return with_batch_norms(std::move(config), group);
}

double furthest_apart(const simulate::Outcome& one, const simulate::Outcome& other) {
  REQUIRE((one.model && other.model));
  return testing::apart(one.model->parameters, other.model->parameters);
}

// Half of the products are ahead of the norm, whose messages have 72 bytes and two floats for each of three channels.
const std::vector<std::string> kGroupOfTwo = {
    "train.layers=[{kind: conv, out: 5, kernel: 1}, {kind: conv, out: 3, kernel: 1}, {kind: batch_norm}, "
    "{kind: conv, out: 10, kernel: 1}, {kind: global_average_pool}]",
    "train.batch_norm_group=2", "sync.policy=bsp"};
const std::string kTenMillisecondsAMessage = "simulate.network.bandwidth=9600";

std::vector<std::string> group_of_two(const std::vector<std::string>& more) {
  std::vector<std::string> all = kGroupOfTwo;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

TEST_CASE("simulated_members_of_norm_groups_end_with_the_bits_of_real_nodes") {
  RunConfig config = normalised_training(4, 2, 8);
  config.train.backend = GENERATE(Backend::kReference, Backend::kOnednn);
  config.simulate.compute.slowdown = {1, 1.5, 1, 2};
  const simulate::Outcome ran = trained(config);
  const auto real = testing::run_network(config);
  REQUIRE(ran.model);
  CHECK(same_floats(ran.model->parameters, real.model.parameters));
  CHECK(ran.summary.test_loss == real.summary.test_loss);
  CHECK(same_floats(trained(config).model->parameters, ran.model->parameters));
}

TEST_CASE("a_simulated_group_has_the_batch_norm_of_one_worker_with_all_its_samples") {
  RunConfig one = normalised_training(1, 1, 5);
  RunConfig group = normalised_training(4, 4, 5);
  one.train.batch_size = 4 * group.train.batch_size;
  const simulate::Outcome whole = trained(one);
  CHECK(furthest_apart(trained(group), whole) < 1e-5);
  group.train.batch_norm_group = 2;
  CHECK(furthest_apart(trained(group), whole) > 1e-4);  // so it is the group that does it
}

// Node 0 would take 120 ms: 20 ahead of the norm, 60 between there and back, 40 after that. Node 1 begins 60 ms later,
// and takes twice as long.
TEST_CASE("members_of_a_norm_group_go_on_once_the_slowest_has_come_to_each_norm") {
  using std::chrono::milliseconds;
  const auto at = [](int ms) { return Ticks() + milliseconds(ms); };
  const bool sends = GENERATE(false, true);
  const auto plan = simulate::make_plan(plain_config(
      group_of_two(sends ? std::vector<std::string>{kTenMillisecondsAMessage, "simulate.network.latency=5ms"}
                         : std::vector<std::string>())));
  REQUIRE(plan.is_ok());
  auto groups = simulate::NormGroups::begin(*plan);
  REQUIRE(groups.is_ok());
  CHECK_FALSE(groups->begin_step(NodeId(0), Clock(0), at(0), milliseconds(120)));
  const auto done = groups->begin_step(NodeId(1), Clock(0), at(60), milliseconds(240));
  REQUIRE(done);
  const int sent = sends ? 2 * (5 + 10) : 0;
  CHECK(done->first == NodeId(0));
  CHECK(done->ends == std::vector<Ticks>{at(260 + sent), at(300 + sent)});
  CHECK(groups->waited(NodeId(0)) == milliseconds(140 + sent));
  CHECK(groups->waited(NodeId(1)) == milliseconds(sent));
}

TEST_CASE("a_simulated_run_of_norm_groups_takes_their_messages_longer") {
  const auto wall = [](const std::vector<std::string>& more) {
    const simulate::Outcome ran = simulated(group_of_two(more));
    CHECK(ran.summary.iterations == 20);
    check_accounted(ran);
    return ran.summary.wall_seconds;
  };
  CHECK(wall({}) == Approx(10 * 0.1).epsilon(1e-6));
  CHECK(wall({kTenMillisecondsAMessage}) - wall({kTenMillisecondsAMessage, "train.batch_norm_group=1"}) ==
        Approx(10 * 2 * 0.01).epsilon(1e-4));
  CHECK(wall({"simulate.compute.slowdown=[1, 2]", "exchange.kind=allreduce", "exchange.on_loss=stop"}) ==
        Approx(10 * 0.2).epsilon(1e-6));
}

TEST_CASE("what_a_simulation_of_norm_groups_does_not_go_with_is_refused") {
  const auto refusal = [](RunConfig config, TaskFactory* tasks) {
    return simulate::simulate(config, {}, tasks).status().message();
  };
  RunConfig config = normalised_training(2, 2, 1);
  auto tasks = make_network_tasks(config);
  REQUIRE(tasks.is_ok());
  CHECK(refusal(config, tasks->get()) ==
        "train.batch_norm_group: a task of one's own brings its own layers, got 2, expected 1");
  RunConfig one_value = config;
  one_value.train.batch_size = 1;
  CHECK_THAT(refusal(one_value, nullptr), Catch::Contains("normalises over one value: batch_size 1 of a"));
  config.simulate.events = {{std::chrono::milliseconds(700), 1, ClusterEventKind::kCrash}};
  CHECK(refusal(config, nullptr) ==
        "simulate.events: a norm group ends with the first member that is lost, got 1 with "
        "train.batch_norm_group: 2, expected none");
}

}  // namespace paceline::test
