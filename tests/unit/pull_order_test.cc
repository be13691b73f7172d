// Where a node asks for a refresh when the configuration leaves it open.
#include "worker/train/pull_order.h"

#include <catch2/catch.hpp>

namespace paceline {
namespace {

const WayToServers kOneMachine{.on_this_machine = true, .read_in_place = true, .cores = 2};

RunConfig config_of(std::vector<std::string> endpoints) {
  RunConfig config;
  config.cluster.endpoints = std::move(endpoints);
  return config;
}

}  // namespace

TEST_CASE(
    "from another machine parameters come down while the gradient goes up, however few cores there are") {
  CHECK(pulls_before_push(PullOrder::kAuto, {.workers = 16, .cores = 1}));
}

TEST_CASE(
    "on one machine a refresh goes behind the gradient where more threads have to do than it has cores") {
  WayToServers way = kOneMachine;
  CHECK(pulls_before_push(PullOrder::kAuto, way));  // one core each
  way.workers = 2;
  CHECK_FALSE(pulls_before_push(PullOrder::kAuto, way));
  way.cores = 3;
  CHECK(pulls_before_push(PullOrder::kAuto, way));
  way.replicas = 2;
  CHECK_FALSE(pulls_before_push(PullOrder::kAuto, way));
  way.cores = 4;
  CHECK(pulls_before_push(PullOrder::kAuto, way));
  way.read_in_place = false;  // the sockets' threads have to copy
  CHECK_FALSE(pulls_before_push(PullOrder::kAuto, way));
  way.cores = 8;
  CHECK(pulls_before_push(PullOrder::kAuto, way));
}

TEST_CASE("a refresh stays ahead where behind hides nothing more, or nobody knows") {
  WayToServers busy = kOneMachine;
  busy.workers = 9;
  REQUIRE_FALSE(pulls_before_push(PullOrder::kAuto, busy));
  WayToServers way = busy;
  way.shards = 2;
  CHECK(pulls_before_push(PullOrder::kAuto, way));
  way = busy;
  way.computes_elsewhere = true;
  CHECK(pulls_before_push(PullOrder::kAuto, way));
  way = busy;
  way.cores = 0;
  CHECK(pulls_before_push(PullOrder::kAuto, way));
}

TEST_CASE("what the configuration says is done") {
  WayToServers near = kOneMachine;
  near.workers = 9;
  CHECK(pulls_before_push(PullOrder::kBeforePush, near));
  CHECK_FALSE(pulls_before_push(PullOrder::kAfterPush, {}));
}

TEST_CASE("what is between a node and its servers is read from the configuration") {
  CHECK(way_to_servers(config_of({"ipc:///tmp/a", "tcp://127.0.0.1:5555"}), true, 2).on_this_machine);
  // One that shares memory with the first has another machine's beside it.
  CHECK_FALSE(way_to_servers(config_of({"ipc:///tmp/a", "tcp://alpha:5555"}), true, 2).on_this_machine);
  RunConfig config = config_of({"ipc:///tmp/a"});
  config.cluster.nodes = 3;
  config.cluster.threads_per_node = 2;
  const WayToServers way = way_to_servers(config, true, 2);
  CHECK((way.read_in_place && !way.computes_elsewhere));
  CHECK((way.workers == 6 && way.shards == 1 && way.replicas == 1 && way.cores == 2));
  CHECK_FALSE(way_to_servers(config, false, 2).read_in_place);
  config.cluster.parameter_encoding = Encoding::kFp16;
  CHECK_FALSE(way_to_servers(config, true, 2).read_in_place);
  config.emulate.base_step = std::chrono::milliseconds(5);
  CHECK(way_to_servers(config, true, 2).computes_elsewhere);
  config.emulate.base_step.reset();
  config.train.device = Device::kCuda;
  CHECK(way_to_servers(config, true, 2).computes_elsewhere);
}

}  // namespace paceline
