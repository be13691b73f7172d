// What goes wrong on a server's GPU, on the fake one: any call may fail. What comes of it is an error that
// names the call, and stays; nothing is leaked and nothing else is done wrong. And what the host waits for.
#include <algorithm>
#include <memory_resource>
#include <sstream>
#include <string>

#include "tests/bench/server_apply.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/unit/server_device_fixture.h"
#include "tests/unit/speculative_apply.h"

namespace paceline::server {
namespace {

using Catch::Contains;

constexpr std::int64_t kFewFloats = 11;
constexpr std::int64_t kSmallBlockFloats = 4;

std::string refusal(const fake_cuda::Machine& machine, const ServerGpuChoice& choice) {
  fake_cuda::set_up(machine);
  const auto gpu = cuda::open_gpu(choice);
  REQUIRE_FALSE(gpu.is_ok());
  CHECK(gpu.status().code() == StatusCode::kUnavailable);
  return gpu.status().message();
}

// Opens the GPU, trains two clocks, of one of which nothing is sent ahead, forgets a gradient that was, saves
// an image and goes on from it.
Status use(const DeviceWay& way) {
  PACELINE_ASSIGN_OR_RETURN(const auto gpu, cuda::open_gpu({{}, ShardId(0)}));
  const ShardSettings settings = settings_on(gpu, way, kSmallBlockFloats);
  Shard shard(ShardId(0), {0, kFewFloats}, layout_of(kFewFloats), settings);
  PACELINE_RETURN_IF_ERROR(shard.initialize({0, true}, wave(kFewFloats, 0.7F)));
  PACELINE_RETURN_IF_ERROR(shard.status());
  PACELINE_RETURN_IF_ERROR(train_clock(shard, way, 0, Ahead::kNothing));
  PACELINE_RETURN_IF_ERROR(train_clock(shard, way, 1, Ahead::kHalf));
  {
    const auto memory = gpu->page_locked(nullptr);
    std::pmr::vector<float> pinned(4, 1.0F, memory.get());
    const wire::Payload payload{std::shared_ptr<const void>(&pinned, [](const void*) {}),
                                reinterpret_cast<const std::byte*>(pinned.data()), 4 * sizeof(float)};
    PACELINE_RETURN_IF_ERROR(shard.push(push_of(WorkerId(0, 0), 2, 7, false), payload).status());
    while (shard.prepare_next()) {
    }
    PACELINE_RETURN_IF_ERROR(shard.withdraw({WorkerId(0, 0), Clock(2)}));
    PACELINE_RETURN_IF_ERROR(shard.status());
  }
  PACELINE_ASSIGN_OR_RETURN(ShardImage image, shard.image());
  Shard resumed(ShardId(0), {0, kFewFloats}, layout_of(kFewFloats), settings);
  PACELINE_RETURN_IF_ERROR(resumed.restore(std::move(image)));
  PACELINE_RETURN_IF_ERROR(resumed.status());
  return train_clock(resumed, way, 2, Ahead::kAll);
}

// They end in an error or do no harm: memory that cannot be pinned is read and written on a detour, and what
// is given back is only waited for.
bool may_be_passed_over(const std::string& call) {
  return call == "cudaHostRegister" || call == "cudaGetDevice" || call == "cudaSetDevice" ||
         call == "cudaStreamSynchronize";
}

}  // namespace

TEST_CASE("what_is_missing_for_a_servers_gpu_is_named") {
  CHECK(refusal({.gpus = 0}, {{}, ShardId(0)}) == "cudaGetDeviceCount: no CUDA-capable device is detected");
  CHECK(refusal({.gpus = 2}, {{0, 2}, ShardId(0)}) ==
        "GPU 2 of server.devices: this machine has 2, numbered from 0");
  fake_cuda::set_up({});
  fake_cuda::fail_call(3);  // behind cudaGetDeviceCount, cudaSetDevice
  const auto gpu = cuda::open_gpu({{}, ShardId(0)});
  const auto shard = (*gpu)->make_shard({.floats = 1 << 20, .optimizer = OptimizerSection()});
  CHECK(shard.status().message() == "GPU 0: cudaStreamCreateWithFlags: out of memory");
}

TEST_CASE("the_shards_of_a_run_take_the_listed_gpus_in_turn") {
  fake_cuda::set_up({.gpus = 3});
  const auto on = [](std::vector<std::uint32_t> devices, std::uint32_t shard) {
    const auto gpu = cuda::open_gpu({std::move(devices), ShardId(shard)});
    fake_cuda::fail_call(2);  // behind cudaSetDevice
    return (*gpu)->make_shard({.floats = 1, .optimizer = OptimizerSection()}).status().message();
  };
  CHECK_THAT(on({}, 1), Contains("GPU 1: "));
  CHECK_THAT(on({}, 3), Contains("GPU 0: "));
  CHECK_THAT(on({2, 0}, 0), Contains("GPU 2: "));
  CHECK_THAT(on({2, 0}, 3), Contains("GPU 0: "));
  CHECK(fake_cuda::alive() == 0);
}

TEST_CASE("any_call_on_a_servers_gpu_may_fail_and_is_named_and_nothing_is_leaked") {
  const DeviceWay way = GENERATE(from_range(kDeviceWays));
  fake_cuda::set_up({});
  const Status well = use(way);
  INFO(well.message());
  REQUIRE(well.is_ok());
  CHECK(fake_cuda::mistakes().empty());
  CHECK(fake_cuda::alive() == 0);
  const std::int64_t calls = fake_cuda::calls();
  std::int64_t failed = 0;
  std::int64_t places_left_out = 0;
  for (std::int64_t nth = 1; nth <= calls; ++nth) {
    fake_cuda::set_up({});
    fake_cuda::fail_call(nth);
    const Status status = use(way);
    CAPTURE(nth, fake_cuda::failed_call(), status.message());
    if (status.is_ok() && fake_cuda::failed_call() == "cudaMalloc") {
      ++places_left_out;
    } else if (status.is_ok()) {
      CHECK(may_be_passed_over(fake_cuda::failed_call()));
    } else {
      ++failed;
      const std::string named = fake_cuda::failed_call() + ": ";
      CHECK_THAT(status.message(), Contains(named));
    }
    CHECK(fake_cuda::mistakes().empty());
    CHECK(fake_cuda::alive() == 0);
  }
  CHECK(2 * failed > calls);
  const auto workers = settings_on(nullptr, way, kSmallBlockFloats).cluster.workers();
  CHECK(places_left_out == 2 * static_cast<std::int64_t>(workers));  // of both shards
}

TEST_CASE("what_failed_stays_and_nobody_is_given_what_came_of_it") {
  fake_cuda::set_up({});
  {
    const DeviceWay way;
    Shard shard = beginning_shard(kFewFloats, settings_on(server_gpu(), way, kSmallBlockFloats));
    fake_cuda::fail_call(2);
    const Status failed = train_clock(shard, way, 0, Ahead::kNothing);
    CHECK_THAT(failed.message(), Contains("server.device: cuda: "));
    CHECK(shard.status().message() == failed.message());
    CHECK(shard.now().version == Version(0));
    CHECK_FALSE(shard.prepare_next());
    CHECK(shard.image().status().message() == failed.message());
  }
  CHECK(fake_cuda::alive() == 0);
}

TEST_CASE("the_host_waits_for_a_decision_once_and_never_for_the_gpu_as_a_whole") {
  const Ahead ahead = GENERATE(Ahead::kNothing, Ahead::kHalf, Ahead::kAll);
  const DeviceWay way = GENERATE(from_range(kDeviceWays));
  fake_cuda::set_up({});
  {
    Shard shard = beginning_shard(kFewFloats, settings_on(server_gpu(), way, kSmallBlockFloats));
    REQUIRE(train_clock(shard, way, 0, ahead).is_ok());
    const std::size_t before = fake_cuda::waits().size();
    REQUIRE(train_clock(shard, way, 1, ahead).is_ok());
    const std::vector<std::string> waits = fake_cuda::waits();
    CHECK(std::vector<std::string>(waits.begin() + static_cast<std::ptrdiff_t>(before), waits.end()) ==
          std::vector<std::string>{"cudaEventSynchronize"});
  }
  CHECK(fake_cuda::mistakes().empty());
}

TEST_CASE("a_schedule_has_the_same_bits_however_little_room_the_gpu_has_and_whenever_it_works") {
  using fake_cuda::Work;
  const Work work = GENERATE(Work::kWhenWaitedFor, Work::kAtOnce, Work::kAtRandom);
  // Places for no gradient ahead, for one of the longest, for all.
  const std::size_t free_bytes = GENERATE(0, 4 * 4 * 41, 1 << 20);
  std::int64_t committed = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    fake_cuda::set_up({.work = work, .seed = seed, .free_bytes = free_bytes});
    const NextStateWalk walk = walk_next_state(seed, server_gpu());
    REQUIRE(walk.violation == "");
    REQUIRE(fake_cuda::mistakes() == std::vector<std::string>());
    REQUIRE(fake_cuda::alive() == 0);
    committed += walk.committed;
  }
  CHECK((committed > 0) == (free_bytes > 0));
}

TEST_CASE("memory_that_cannot_be_pinned_takes_a_detour_with_the_same_bits") {
  const DeviceWay way = GENERATE(from_range(kDeviceWays));
  fake_cuda::set_up({});
  {
    ShardSettings settings = settings_on(server_gpu(), way, kSmallBlockFloats);
    settings.memory = nullptr;  // the heap's
    Shard on_gpu = beginning_shard(kFewFloats, settings);
    Shard on_cpu = beginning_shard(kFewFloats, settings_on(nullptr, way, kSmallBlockFloats));
    for (std::int64_t clock = 0; clock < 3; ++clock) {
      REQUIRE(train_clock(on_gpu, way, clock, Ahead::kHalf).is_ok());
      REQUIRE(train_clock(on_cpu, way, clock, Ahead::kHalf).is_ok());
      CHECK(same_bits(on_gpu.now().blocks, on_cpu.now().blocks));
    }
  }
  CHECK(fake_cuda::mistakes().empty());
  CHECK(fake_cuda::alive() == 0);
}

// What scripts/gpu_check.sh runs on a real one.
TEST_CASE("the_benchmark_of_a_servers_gpu_measures_each_optimizer") {
  fake_cuda::set_up({});
  std::ostringstream lines;
  REQUIRE(bench::server_apply(server_gpu(), {1000, 200'000}, 2, lines).is_ok());
  const std::string said = lines.str();
  CHECK(std::count(said.begin(), said.end(), '\n') == 6);
  for (const char* each : {"\"optimizer\": \"sgd\"", "\"optimizer\": \"momentum\"", "\"optimizer\": \"adam\"",
                           "\"floats\": 200000", "\"limit_ms\": "}) {
    CHECK_THAT(said, Contains(each));
  }
  CHECK(fake_cuda::mistakes().empty());
  CHECK(fake_cuda::alive() == 0);
}

}  // namespace paceline::server
