// Decisions applied on a GPU: the bits of the processor, whatever was sent ahead. On a real GPU (gpu_test)
// and on the fake one (server_device_test).
#include <catch2/catch.hpp>
#include <optional>
#include <utility>

#include "tests/unit/server_device_fixture.h"
#include "tests/unit/speculative_apply.h"

namespace paceline::server {
namespace {

// Blocks, the last of them partly used, of pieces that end within one.
constexpr std::int64_t kBlockFloats = 16 * 1024;
constexpr std::int64_t kFloats = 5 * kBlockFloats + 4321;

}  // namespace

TEST_CASE(
    "a_schedule_applied_on_a_gpu_has_the_bits_of_the_plain_loop_and_nothing_shows_before_its_decision") {
  const auto device = server_gpu();
  std::int64_t committed = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const NextStateWalk walk = walk_next_state(seed, device);
    REQUIRE(walk.violation == "");
    committed += walk.committed;
  }
  CHECK(committed > 1000);  // much was sent ahead
}

TEST_CASE("a_shard_on_a_gpu_has_the_bits_of_one_on_the_processor_after_each_decision") {
  const DeviceWay way = GENERATE(from_range(kDeviceWays));
  const Ahead ahead = GENERATE(Ahead::kNothing, Ahead::kHalf, Ahead::kAll);
  const Layout layout = GENERATE(false, true) ? layout_of(kFloats) : uneven_layout(kFloats);
  Shard on_gpu = beginning_shard(kFloats, settings_on(server_gpu(), way, kBlockFloats), layout);
  Shard on_cpu = beginning_shard(kFloats, settings_on(nullptr, way, kBlockFloats), layout);
  std::optional<Snapshot> read;  // in one clock of two somebody reads what is changed
  for (std::int64_t clock = 0; clock < 4; ++clock) {
    read = clock % 2 == 0 ? std::nullopt : std::optional(on_gpu.now());
    const std::vector<float> before = read ? values_of(read->blocks) : std::vector<float>();
    REQUIRE(train_clock(on_gpu, way, clock, ahead).is_ok());
    REQUIRE(train_clock(on_cpu, way, clock, ahead).is_ok());
    REQUIRE(same_bits(on_gpu.now().blocks, on_cpu.now().blocks));
    if (read) CHECK(values_of(read->blocks) == before);
  }
  // Of two gradients of six blocks, four clocks long: of the second one the half that came first is in three.
  const std::int64_t sent = ahead == Ahead::kNothing ? 0 : ahead == Ahead::kHalf ? 6 + 3 : 6 + 6;
  CHECK(on_gpu.next().committed() == 4 * sent);
  CHECK(on_gpu.next().dropped() == 0);
}

TEST_CASE("an_image_of_a_shard_on_a_gpu_is_one_of_the_processor_and_either_goes_on_from_it") {
  const DeviceWay way = GENERATE(from_range(kDeviceWays));
  const auto device = server_gpu();
  Shard on_gpu = beginning_shard(kFloats, settings_on(device, way, kBlockFloats));
  Shard on_cpu = beginning_shard(kFloats, settings_on(nullptr, way, kBlockFloats));
  for (std::int64_t clock = 0; clock < 2; ++clock) {
    REQUIRE(train_clock(on_gpu, way, clock, Ahead::kAll).is_ok());
    REQUIRE(train_clock(on_cpu, way, clock, Ahead::kAll).is_ok());
  }
  const auto image = on_gpu.image();
  REQUIRE(image.is_ok());
  const auto expected = on_cpu.image();
  CHECK(image->optimizer.steps == expected->optimizer.steps);
  CHECK(same_bits(image->parameters, expected->parameters));
  CHECK(same_bits(image->optimizer.first, expected->optimizer.first));
  CHECK(same_bits(image->optimizer.second, expected->optimizer.second));

  const auto resumed_on = [&](std::shared_ptr<ServerDevice> where) {
    Shard resumed(ShardId(0), {0, kFloats}, layout_of(kFloats),
                  settings_on(std::move(where), way, kBlockFloats));
    REQUIRE(resumed.restore(*image).is_ok());
    return resumed;
  };
  Shard resumed_there = resumed_on(device);
  Shard resumed_here = resumed_on(nullptr);
  for (std::int64_t clock = 2; clock < 4; ++clock) {
    for (Shard* shard : {&on_gpu, &resumed_there, &resumed_here}) {
      REQUIRE(train_clock(*shard, way, clock, Ahead::kHalf).is_ok());
    }
  }
  CHECK(same_bits(resumed_there.now().blocks, on_gpu.now().blocks));
  CHECK(same_bits(resumed_here.now().blocks, on_gpu.now().blocks));
  CHECK(same_bits(image->parameters, expected->parameters));  // as it was
  const auto wrong = settings_on(
      device, {way.kind == OptimizerKind::kSgd ? OptimizerKind::kAdam : OptimizerKind::kSgd, way.combine},
      kBlockFloats);
  Shard other(ShardId(0), {0, kFloats}, layout_of(kFloats), wrong);
  CHECK(other.restore(*image).code() == StatusCode::kInvalidArgument);
}

TEST_CASE("a_shard_of_no_parameters_applies_its_decisions_on_a_gpu_too") {
  const DeviceWay way = GENERATE(from_range(kDeviceWays));
  Shard shard(ShardId(1), {1, 1}, layout_of(1), settings_on(server_gpu(), way, 4));
  REQUIRE(shard.initialize({0, true}, {}).is_ok());
  wire::ApplyDecision decision = decision_of(0, {{WorkerId(0, 0), Clock(0), 1}}, 1);
  REQUIRE(shard.push(push_of(WorkerId(0, 0), 0), payload_of({})).is_ok());
  CHECK(shard.apply(decision).is_ok());
  CHECK(shard.image().is_ok());
}

}  // namespace paceline::server
