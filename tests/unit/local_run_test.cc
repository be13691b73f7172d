// A run without any other process: its bits are those of servers, and what its threads compute with is what the
// guarantees promise.
#include "tests/unit/local_run.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <vector>

#include "tests/process/counting_task.h"
#include "tests/process/network_run.h"
#include "tests/unit/training_fixture.h"
#include "worker/network_task.h"

namespace paceline::test {
namespace {

using testing::CountingFactory;
using testing::CountingOptions;

}  // namespace

TEST_CASE("a_run_in_one_process_ends_with_the_bits_of_one_with_servers") {
  struct Case {
    std::uint32_t threads;
    PolicyKind policy;
    CombineMode combine;
    OptimizerKind optimizer;
    TensorsOf decay = TensorsOf::kAll;
    std::int64_t local_steps = 1;
    bool normalised = false;
  };
  const auto each = GENERATE(
      Case{1, PolicyKind::kBsp, CombineMode::kMean, OptimizerKind::kSgd},
      Case{1, PolicyKind::kBsp, CombineMode::kMean, OptimizerKind::kSgd, TensorsOf::kWeights},
      Case{1, PolicyKind::kSsp, CombineMode::kEach, OptimizerKind::kSgd},
      Case{1, PolicyKind::kBsp, CombineMode::kEach, OptimizerKind::kAdam},
      Case{3, PolicyKind::kBsp, CombineMode::kMean, OptimizerKind::kMomentum},
      Case{3, PolicyKind::kBsp, CombineMode::kMean, OptimizerKind::kMomentum, TensorsOf::kAll, 4},
      Case{1, PolicyKind::kSsp, CombineMode::kEach, OptimizerKind::kSgd, TensorsOf::kAll, 4},
      Case{3, PolicyKind::kBsp, CombineMode::kMean, OptimizerKind::kMomentum, TensorsOf::kAll, 1, true},
      Case{3, PolicyKind::kBsp, CombineMode::kMean, OptimizerKind::kLars, TensorsOf::kWeights},
      Case{1, PolicyKind::kSsp, CombineMode::kMean, OptimizerKind::kLamb, TensorsOf::kAll, 1, true},
      Case{2, PolicyKind::kBsp, CombineMode::kMean, OptimizerKind::kSgd, TensorsOf::kAll, 4, true});
  CAPTURE(each.threads, static_cast<int>(each.policy), static_cast<int>(each.optimizer));
  RunConfig config =
      with_policy(training_config(1, each.threads), each.policy, ApplyMode::kVersioned, each.combine);
  config.train.optimizer.kind = each.optimizer;
  config.train.optimizer.lr = each.optimizer == OptimizerKind::kAdam ? 0.001 : 0.05;
  if (each.decay == TensorsOf::kWeights) {  // biases are spared, and one layer learns half as fast
    config.train.optimizer.decay = each.decay;
    config.train.optimizer.weight_decay = 0.1;
    config.train.layers.back().lr_factor = 0.5;
  }
  if (each.normalised)
    config.train.layers.insert(config.train.layers.begin() + 1, {.kind = LayerKind::kBatchNorm});
  config.train.optimizer.schedule.kind = ScheduleKind::kCosine;
  if (each.local_steps > 1) config = with_local_steps(config, each.local_steps);
  const auto tasks = make_network_tasks(config);
  REQUIRE(tasks.is_ok());
  LocalRun run(config, **tasks);
  CHECK(run.run() == config.train.total_iterations);
  CHECK((run.coordinator.ended() && run.coordinator.ended()->is_ok()));
  CHECK(run.exchange.version() == Version(20 / each.local_steps));
  CHECK(same_floats(run.exchange.parameters(), testing::run_network(config).model.parameters));
}

// The counting model: every gradient adds 1 to its worker's column (tests/process/counting_task.h).
TEST_CASE("threads_of_one_process_compute_with_what_is_promised_whatever_their_order") {
  const auto apply = GENERATE(ApplyMode::kVersioned, ApplyMode::kEager);
  const std::int64_t local_steps = GENERATE(1, 4);
  RunConfig config = with_policy(training_config(1, 3), PolicyKind::kSsp, apply);
  config.sync.threshold = 2;
  config.train.optimizer.lr = 1.0;
  config.train.total_iterations = 3 * 200 * local_steps;
  config.train.local_steps = local_steps;
  config.train.has_inner_optimizer = local_steps > 1;
  config.train.inner_optimizer.lr = 1.0 / static_cast<double>(local_steps);
  CountingOptions options;
  options.local_steps = local_steps;
  options.cluster = config.cluster.cluster();
  std::atomic<std::int64_t> wrong = 0;
  options.on_read = [&](const testing::Read& read) {
    const std::int64_t clock = read.step.clock.value;
    for (std::size_t i = 0; i < read.counts.size(); ++i) {
      const auto count = static_cast<std::int64_t>(read.counts[i]);
      const bool own = i % 3 == read.step.worker.thread;
      if (own ? count != clock : count < clock - 2) ++wrong;
    }
  };
  CountingFactory tasks(options);
  LocalRun run(config, tasks);
  CHECK(run.run() == config.train.total_iterations);
  CHECK(wrong == 0);
  for (const float count : run.exchange.parameters()) CHECK(count == 200.0F);
}

}  // namespace paceline::test
