// Whole runs whose servers apply on a GPU, the fake one: random schedules of every policy over real sockets
// and shared memory (guarantees_test.cc), also where connections break, and every read checked. And the final
// model's bits, and what becomes of a run in which a call fails.
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "server/cuda/open_gpu.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/process/counting_task.h"
#include "tests/process/local_cluster.h"
#include "tests/process/random_run.h"
#include "tests/process/random_schedule.h"
#include "tests/process/schedules.h"
#include "tests/seeds.h"

namespace paceline::testing {
namespace {

using Catch::Contains;

#if defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kSchedules = kCombinations;
#else
constexpr std::uint64_t kSchedules = 3 * kCombinations;
#endif
constexpr std::uint64_t kBreakingSchedules = kCombinations;
constexpr int kAtATime = 4;

std::shared_ptr<server::ServerDevice> gpu_of(ShardId shard) { return *cuda::open_gpu({{}, shard}); }

std::vector<std::string> violations_on_gpus(std::uint64_t schedules, Network network, Broken& broken,
                                            fake_cuda::Work work) {
  fake_cuda::set_up({.gpus = 2, .work = work});
  std::vector<std::string> violations = violations_of_all({1, schedules}, kAtATime, [&](std::uint64_t seed) {
    return violations_of(seed, nullptr, network, &broken, gpu_of);
  });
  for (const std::string& mistake : fake_cuda::mistakes()) violations.push_back(mistake);
  if (fake_cuda::alive() > 0) violations.push_back("something on the GPU was not given back");
  return violations;
}

RunConfig one_shard(std::uint32_t nodes) {
  RunConfig config;
  config.cluster.nodes = nodes;
  config.cluster.frame_bytes = 64;
  config.sync.policy = PolicyKind::kBsp;
  config.sync.combine = CombineMode::kMean;
  config.train.optimizer.kind = OptimizerKind::kAdam;
  config.train.total_iterations = 20 * nodes;
  return config;
}

Result<ClusterRun> run_counting(const RunConfig& config, const Devices& devices) {
  CountingOptions counting;
  counting.cluster = config.cluster.cluster();
  counting.blocks = 100;
  return run_cluster(
      config, [&](NodeId, const StopNode&) { return std::make_unique<CountingFactory>(counting); }, {}, {},
      {}, {}, devices);
}

}  // namespace

TEST_CASE("every_read_keeps_the_guarantees_with_servers_on_a_gpu") {
  Broken broken;
  CHECK(violations_on_gpus(kSchedules, Network::kStands, broken, fake_cuda::Work::kAtRandom) ==
        std::vector<std::string>());
}

TEST_CASE("every_read_keeps_the_guarantees_with_servers_on_a_gpu_though_connections_break") {
  Broken broken;
  CHECK(violations_on_gpus(kBreakingSchedules, Network::kBreaks, broken, fake_cuda::Work::kWhenWaitedFor) ==
        std::vector<std::string>());
  CHECK(broken.all > 0);
}

TEST_CASE("a_model_trained_by_servers_on_a_gpu_has_the_bits_of_one_by_servers_without") {
  fake_cuda::set_up({});
  RunConfig config = one_shard(2);
  config.cluster.shards = 2;
  config.cluster.endpoints = {"", ""};
  const auto on_gpu = run_counting(config, gpu_of);
  INFO(on_gpu.status().message());
  REQUIRE(on_gpu.is_ok());
  const auto on_cpu = run_counting(config, {});
  REQUIRE(on_cpu.is_ok());
  REQUIRE(on_gpu->model.parameters.size() == on_cpu->model.parameters.size());
  CHECK(std::memcmp(on_gpu->model.parameters.data(), on_cpu->model.parameters.data(),
                    on_cpu->model.parameters.size() * sizeof(float)) == 0);
  CHECK(fake_cuda::mistakes().empty());
  CHECK(fake_cuda::alive() == 0);
}

// With the shard's memory, in the middle of training, and in between: whenever it is, the run fails and says
// why.
TEST_CASE("a_run_whose_servers_gpu_fails_ends_and_says_which_call_it_was") {
  const std::int64_t nth = GENERATE(3, 6, 40, 200);
  fake_cuda::set_up({});
  const auto opened = gpu_of(ShardId(0));
  fake_cuda::fail_call(nth);
  const auto run = run_counting(one_shard(1), [&](ShardId) { return opened; });
  const std::string said = run.is_ok() ? run->servers[0].message() : run.status().message();
  CAPTURE(said, fake_cuda::failed_call());
  const std::string named = fake_cuda::failed_call() + ": ";
  if (run.is_ok()) {  // memory that cannot be pinned takes a detour, and places for gradients may be fewer
    const std::string call = fake_cuda::failed_call();
    CHECK((call == "cudaHostRegister" || call == "cudaMalloc"));
    CHECK(run->servers[0].is_ok());
  } else {
    CHECK_THAT(said, Contains("server.device: cuda: ") && Contains(named));
  }
  CHECK(fake_cuda::mistakes().empty());
  CHECK(fake_cuda::alive() == 0);
}

}  // namespace paceline::testing
