// The guarantees of DESIGN 3.2 over real sockets: random schedules of every policy, apply mode, combine mode,
// share and shard count, with jitter, nodes that finish early and nodes that leave; every single read of the
// counting model is checked. A failure prints the seed; to run that schedule alone, set kFirstSeed to it and
// kSchedules to 1.
#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/process/counting_task.h"
#include "tests/process/guarantee_checker.h"
#include "tests/process/local_cluster.h"
#include "tests/process/random_run.h"

namespace paceline::testing {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kSchedules = 150;
#else
constexpr std::uint64_t kSchedules = 2000;
#endif
constexpr std::uint64_t kFirstSeed = 1;
constexpr int kAtATime = 8;

// Runs the schedule of `seed`; every violation, as sentences.
std::vector<std::string> violations_of(std::uint64_t seed) {
  const RunConfig config = random_run(seed);
  GuaranteeChecker checker(config);

  CountingOptions counting;
  counting.cluster = config.cluster.cluster();
  counting.seed = seed;
  if (config.sync.combine == CombineMode::kMean) {
    counting.gradient_scale = static_cast<float>(counting.cluster.workers());
  }
  counting.on_read = [&checker](const Read& read) { checker.on_read(read); };

  // One run in four loses a node (never the only one) at some step of its first thread.
  CounterRandom random(seed, Stream::kTest, 2);
  const bool one_leaves = counting.cluster.nodes > 1 && random.next_below(4) == 0;
  const NodeId leaver(static_cast<std::uint32_t>(random.next_below(counting.cluster.nodes)));
  const Clock leaves_at(static_cast<std::int64_t>(random.next_below(6)));

  const auto run = run_cluster(config, [&](NodeId node, const StopNode& stop) {
    CountingOptions options = counting;
    options.before_compute = [&, node, stop, seed](const Step& step) {
      CounterRandom jitter(seed, Stream::kTest, 3 + counting.cluster.rank_of(step.worker).value,
                           static_cast<std::uint64_t>(step.clock.value));
      if (jitter.next_below(3) == 0) spin_for(std::chrono::microseconds(jitter.next_below(400)));
      if (one_leaves && node == leaver && step.worker.thread == 0 && step.clock == leaves_at) {
        checker.node_goes(node);
        stop(node, "the schedule says so");
      }
      return Status::ok();
    };
    return std::make_unique<CountingFactory>(options);
  });

  std::vector<std::string> violations = checker.violations();
  if (!run) {
    violations.push_back(run.status().message());
  } else {
    if (!run->servers[0]) violations.push_back("authority: " + run->servers[0].message());
    checker.on_end(run->summary, run->model.parameters, counting.blocks);
    violations = checker.violations();
  }
  if (checker.reads() == 0) violations.push_back("nobody read anything");
  for (std::string& violation : violations) violation = describe(seed, config) + ": " + violation;
  return violations;
}

}  // namespace

// Several schedules run at a time: each spends most of its time waiting for its own nodes.
TEST_CASE("every_read_of_every_schedule_keeps_the_guarantees") {
  std::atomic<std::uint64_t> next{kFirstSeed};
  std::mutex mutex;
  std::vector<std::string> violations;
  std::vector<std::thread> threads;
  for (int t = 0; t < kAtATime; ++t) {
    threads.emplace_back([&] {
      for (std::uint64_t seed = next++; seed < kFirstSeed + kSchedules; seed = next++) {
        const std::vector<std::string> found = violations_of(seed);
        const std::lock_guard lock(mutex);
        violations.insert(violations.end(), found.begin(), found.end());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& violation : violations) UNSCOPED_INFO(violation);
  REQUIRE(violations.empty());
}

}  // namespace paceline::testing
