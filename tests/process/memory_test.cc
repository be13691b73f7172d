// Lean: a run of 100,000 steps grows no memory, and one of a large model stays within what is said of it,
// with delay compensation and without. The counting model through real servers and nodes, long enough for
// anything that is kept per step, per clock or per message to show.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>

#include "tests/process/counting_task.h"
#include "tests/process/local_cluster.h"

namespace paceline::testing {
namespace {

constexpr std::int64_t kIterations = 100'000;
// Sixteen bytes a step would be 1.3 MB over the last 80,000 steps. What moves besides: buffers of ZeroMQ's
// queues, which grow with the longest burst so far, and the allocator's arenas.
constexpr std::int64_t kGrowthMax = 1'000'000;

std::int64_t resident_bytes() {
  std::ifstream status("/proc/self/statm");
  std::int64_t pages = 0;
  std::int64_t resident = 0;
  status >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// The most that was ever resident of this process, in bytes.
std::int64_t peak_bytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word && word != "VmHWM:") {
  }
  std::int64_t kib = 0;
  status >> kib;
  return kib * 1024;
}

struct LargeRun {
  std::int64_t iterations = -1;  // -1: it did not end as it should
  std::int64_t peak = 0;         // bytes resident at the most, beyond what there was before it
};

// A run in a process of its own: one that went before leaves freed memory in the threads' arenas, which the
// next would use again, some of it, and so seem to take less.
LargeRun run_in_child(const RunConfig& config, const CountingOptions& options) {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    LargeRun measured;
    const std::int64_t before = resident_bytes();
    const auto run = run_cluster(
        config, [&](NodeId, const StopNode&) { return std::make_unique<CountingFactory>(options); });
    measured.peak = peak_bytes() - before;
    if (run.is_ok())
      measured.iterations = run->summary.iterations;
    else
      std::cerr << run.status().message() << '\n';
    ::_exit(::write(ends[1], &measured, sizeof measured) == sizeof measured ? 0 : 1);
  }
  ::close(ends[1]);
  LargeRun measured;
  CHECK(::read(ends[0], &measured, sizeof measured) == sizeof measured);
  ::close(ends[0]);
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  return measured;
}

}  // namespace

TEST_CASE("a_run_of_100000_steps_grows_no_memory") {
  const PolicyKind policy = GENERATE(PolicyKind::kSsp, PolicyKind::kAsp);
  CAPTURE(static_cast<int>(policy));
  RunConfig config;
  config.cluster.nodes = 2;
  config.cluster.threads_per_node = 2;
  config.cluster.shards = 2;
  config.train.total_iterations = kIterations;
  config.train.batch_size = 10;
  config.train.optimizer.lr = 1.0;
  config.sync.policy = policy;
  config.sync.threshold = 3;
  config.sync.apply = policy == PolicyKind::kAsp ? ApplyMode::kEager : ApplyMode::kVersioned;
  config.sync.combine = CombineMode::kEach;

  std::atomic<std::int64_t> steps{0};
  std::int64_t early = 0;  // after a fifth: everything has been used by then
  std::int64_t late = 0;
  CountingOptions options;
  options.cluster = config.cluster.cluster();
  options.before_compute = [&](const Step&) {
    const std::int64_t step = ++steps;
    if (step == kIterations / 5) early = resident_bytes();
    if (step == kIterations) late = resident_bytes();
    return Status::ok();
  };
  const auto run = run_cluster(
      config, [&](NodeId, const StopNode&) { return std::make_unique<CountingFactory>(options); });
  INFO(run.status().message());
  REQUIRE(run.is_ok());
  for (const Status& server : run->servers) CHECK(server.message() == "");
  for (const Status& node : run->nodes) CHECK(node.message() == "");
  for (const std::string& lost : run->summary.lost) FAIL_CHECK(lost);
  CHECK(run->summary.iterations == kIterations);
  WARN("resident after 20,000 steps " << early / 1024 << " KiB, after 100,000 " << late / 1024 << " KiB, "
                                      << run->summary.wall_seconds << " s");
  CHECK(late - early <= kGrowthMax);
}

// docs/ARCHITECTURE.md, "Parameters in memory": of the servers, parameters x 2, with `adaptive` once more, 2
// gradients of each worker under eager, and with compensation, of what each computes with, as many states and
// 3; of a node, its parameters, three gradients, differences for two own timestamps and an answer. What a run
// leaves of each step, a gradient or a state, would be 800 MB.
TEST_CASE("a_run_of_a_large_model_holds_what_is_said_and_no_more") {
  constexpr std::int64_t kFloats = 1'000'000, kSteps = 200;
  constexpr std::int64_t kNodes = 2, kHeld = 2;
  const CompensationKind kind =
      GENERATE(CompensationKind::kNone, CompensationKind::kConstant, CompensationKind::kAdaptive);
  const std::uint32_t shards = GENERATE(1u, 2u);
  CAPTURE(static_cast<int>(kind), shards);
  RunConfig config;
  config.cluster.nodes = kNodes;
  config.cluster.threads_per_node = 1;
  config.cluster.shards = shards;
  config.cluster.shared_memory = SharedMemory::kOff;
  config.train.total_iterations = kSteps;
  config.train.batch_size = 10;
  config.train.optimizer.lr = 1.0;
  config.train.optimizer.delay_compensation.kind = kind;
  config.sync.policy = PolicyKind::kAsp;
  config.sync.apply = ApplyMode::kEager;
  config.sync.combine = CombineMode::kEach;

  CountingOptions options;
  options.cluster = config.cluster.cluster();
  options.blocks = kFloats / kNodes;
  const LargeRun run = run_in_child(config, options);
  REQUIRE(run.iterations == kSteps);
  const bool compensates = kind != CompensationKind::kNone;
  const std::int64_t server = 2 + (kind == CompensationKind::kAdaptive ? 1 : 0) + kNodes * kHeld +
                              (compensates ? kNodes * (kHeld + 3) : 0);
  const std::int64_t node = 1 + 3 + 2 + 1;
  WARN("at the most " << run.peak / (4 * kFloats) << " times the parameters, allowed "
                      << server + kNodes * node);
  CHECK(run.peak <= (server + kNodes * node) * kFloats * 4 + (std::int64_t{64} << 20));
  CHECK(run.peak > 5 * kFloats * 4);  // it was measured
}

}  // namespace paceline::testing
