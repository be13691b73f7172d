// Lean: a long run grows no memory, and one of a large model stays within what is said of it, with delay
// compensation and without. The counting model through real servers and nodes; a run is long when anything
// that is kept per step, per clock, per message or per evaluation would show.
//
// Each run is in a process of its own: one that went before leaves freed memory in the threads' arenas, which
// the next would use again, some of it, and so seem to take less.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "tests/process/counting_task.h"
#include "tests/process/local_cluster.h"
#include "tests/process/transport.h"

namespace paceline::testing {
namespace {

// What a run may grow by between a fifth of its steps and nearly all of them, beside two gradients more of
// each worker than were held at once before. The least that an allocation takes, 32 bytes, would be 1.25 MB
// of 50,000 steps if each left one; of 20,000 steps it is forty that would, or two of each of their twenty
// messages. What moves besides (30 to 200 KB; on a busy machine 430 KB once, and 660 once of a run with 7,375
// evaluations, whose bursts are the longest): buffers of ZeroMQ's queues, which grow with the longest burst
// so far, and the allocator's arenas.
constexpr std::int64_t kGrowthMax = 600'000;
constexpr std::int64_t kGrowthMaxOfEvaluations = 1'000'000;

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

struct Measured {
  std::int64_t iterations = -1;  // -1: it did not end as it should
  std::int64_t evaluations = 0;
  std::int64_t bytes_shared = 0;
  double seconds = 0.0;
  std::int64_t early = 0;  // bytes resident after a fifth of the steps: everything has been used by then
  std::int64_t late = 0;   // after 49 in 50, before the run's end takes memory of its own
  std::int64_t peak = 0;   // at the most, beyond what there was before the run
};

// What went wrong in it, if anything did.
std::string fault_of(const Result<ClusterRun>& run) {
  if (!run.is_ok()) return run.status().message();
  for (const Status& server : run->servers)
    if (!server) return server.message();
  for (const Status& node : run->nodes)
    if (!node) return node.message();
  return run->summary.lost.empty() ? "" : run->summary.lost.front();
}

Measured measure(const RunConfig& config, std::int64_t blocks) {
  Measured measured;
  std::atomic<std::int64_t> steps{0};
  CountingOptions options;
  options.cluster = config.cluster.cluster();
  options.blocks = blocks;
  options.before_compute = [&](const Step&) {
    const std::int64_t step = ++steps;
    if (step == config.train.total_iterations / 5) measured.early = resident_bytes();
    if (step == config.train.total_iterations / 50 * 49) measured.late = resident_bytes();
    return Status::ok();
  };
  options.on_evaluate = [&](std::span<const float>) { ++measured.evaluations; };
  const std::int64_t before = resident_bytes();
  const auto run = run_cluster(
      config, [&](NodeId, const StopNode&) { return std::make_unique<CountingFactory>(options); });
  measured.peak = peak_bytes() - before;
  if (const std::string fault = fault_of(run); !fault.empty()) {
    std::cerr << fault << '\n';
    return measured;
  }
  measured.iterations = run->summary.iterations;
  measured.bytes_shared = run->summary.bytes_shared;
  measured.seconds = run->summary.wall_seconds;
  return measured;
}

Measured run_in_child(const RunConfig& config, std::int64_t blocks) {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const Measured measured = measure(config, blocks);
    ::_exit(::write(ends[1], &measured, sizeof measured) == sizeof measured ? 0 : 1);
  }
  ::close(ends[1]);
  Measured measured;
  CHECK(::read(ends[0], &measured, sizeof measured) == sizeof measured);
  ::close(ends[0]);
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  return measured;
}

struct LongRun {
  const char* what;
  std::int64_t steps = 50'000;
  PolicyKind policy = PolicyKind::kSsp;
  const char* endpoint = nullptr;  // else ipc
  SharedMemory shared_memory = SharedMemory::kOff;
  std::int64_t blocks = 3;  // of one float for each of the four workers
  std::optional<std::int64_t> eval_every_clocks = std::nullopt;
  ApplyMode apply = ApplyMode::kVersioned;  // asp: eager
  OptimizerKind optimizer = OptimizerKind::kSgd;
  Encoding gradients = Encoding::kFp32;
  Encoding parameters = Encoding::kFp32;
};

// In frames of 16 KiB, two to each shard: too large to be copied (wire::kCopiedBytesMax), and large enough to
// be lent (wire::Sharing::kLentBytesMin), which a smaller one is not with `auto` either. Each step has eight
// of them or so, there and back, so fewer steps will do.
constexpr std::int64_t kFrameBytes = 16 * 1024;
constexpr std::int64_t kFourFrames = 4 * kFrameBytes / 16;

const LongRun kLongRuns[] = {
    {.what = "ssp", .shared_memory = SharedMemory::kAuto},
    {.what = "asp", .policy = PolicyKind::kAsp, .shared_memory = SharedMemory::kAuto},
    {.what = "over tcp", .endpoint = kAnyPort},
    {.what = "frames sent without a copy", .steps = 20'000, .blocks = kFourFrames},
    {.what = "frames sent without a copy, over tcp",
     .steps = 20'000,
     .endpoint = kAnyPort,
     .blocks = kFourFrames},
    {.what = "frames in shared memory",
     .steps = 20'000,
     .shared_memory = SharedMemory::kOn,
     .blocks = kFourFrames},
    {.what = "evaluations", .eval_every_clocks = 1},
    {.what = "bsp", .policy = PolicyKind::kBsp},
    {.what = "ssp, eager, momentum", .apply = ApplyMode::kEager, .optimizer = OptimizerKind::kMomentum},
    {.what = "asp, adam", .policy = PolicyKind::kAsp, .optimizer = OptimizerKind::kAdam},
    {.what = "sixteen bits",
     .steps = 20'000,
     .blocks = kFourFrames,
     .gradients = Encoding::kBf16,
     .parameters = Encoding::kFp16},
    {.what = "int8, what is left out is owed",
     .steps = 20'000,
     .blocks = kFourFrames,
     .gradients = Encoding::kInt8},
};

}  // namespace

TEST_CASE("a_long_run_grows_no_memory") {
  const LongRun& row = kLongRuns[GENERATE(range(std::size_t{0}, std::size(kLongRuns)))];
  CAPTURE(row.what);
  RunConfig config;
  config.cluster.nodes = 2;
  config.cluster.threads_per_node = 2;
  config.cluster.shards = 2;
  if (row.endpoint != nullptr) config.cluster.endpoints = {row.endpoint};
  config.cluster.shared_memory = row.shared_memory;
  config.cluster.frame_bytes = kFrameBytes;
  config.train.total_iterations = row.steps;
  config.train.eval_every_clocks = row.eval_every_clocks;
  config.train.batch_size = 10;
  config.train.optimizer.lr = 1.0;
  // Where nobody waits for others, an even share of a fast node ends long before the run.
  if (row.policy == PolicyKind::kAsp) config.train.share = Share::kPool;
  config.sync.policy = row.policy;
  config.sync.threshold = 3;
  config.sync.apply = row.policy == PolicyKind::kAsp ? ApplyMode::kEager : row.apply;
  config.sync.combine = CombineMode::kEach;
  config.train.optimizer.kind = row.optimizer;
  config.cluster.gradient_encoding = row.gradients;
  config.cluster.parameter_encoding = row.parameters;

  const Measured run = run_in_child(config, row.blocks);
  REQUIRE(run.iterations == row.steps);
  WARN(row.what << ": resident after a fifth of " << row.steps << " steps " << run.early / 1024
                << " KiB, near the end " << run.late / 1024 << " KiB, " << run.evaluations << " evaluations, "
                << run.seconds << " s");
  // Of 12,500 versions; one that comes due after two others is not evaluated (a busy machine has few).
  CHECK(run.evaluations >= (row.eval_every_clocks ? 500 : 1));
  CHECK((run.bytes_shared > 0) == (row.shared_memory == SharedMemory::kOn));
  CHECK(run.early > 0);  // it was measured
  const std::int64_t gradient_bytes = row.blocks * 4 * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t growth_max = row.eval_every_clocks ? kGrowthMaxOfEvaluations : kGrowthMax;
  CHECK(run.late - run.early <= growth_max + 2 * 4 * gradient_bytes);
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

  const Measured run = run_in_child(config, kFloats / kNodes);
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
