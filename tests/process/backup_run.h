// A random run under backup workers, all of it from one seed: on one-thread nodes, too, with N of one worker,
// or none to spare.
#pragma once

#include <chrono>
#include <cstdint>

#include "tests/process/random_run.h"

namespace paceline::testing {

struct BackupRun {
  RunConfig config;
  std::int64_t n = 0;     // gradients of a clock
  std::int64_t rows = 0;  // of the counting model
};

// Of `nodes_min` to 3 nodes.
inline BackupRun backup_run(std::uint64_t seed, std::uint32_t nodes_min = 1) {
  BackupRun run;
  RunConfig& config = run.config;
  CounterRandom random(seed, Stream::kTest, 80);
  config.run.seed = seed;
  config.cluster.lease = std::chrono::seconds(30);  // nobody is missed for its silence
  draw_transport(seed, config);
  config.cluster.nodes = nodes_min + static_cast<std::uint32_t>(random.next_below(4 - nodes_min));
  config.cluster.threads_per_node = 1 + static_cast<std::uint32_t>(random.next_below(3));
  config.cluster.shards = 1 + static_cast<std::uint32_t>(random.next_below(3));
  const auto workers = static_cast<std::int64_t>(config.cluster.cluster().workers());
  config.sync.policy = PolicyKind::kBackup;
  config.sync.backup_workers = static_cast<std::int64_t>(random.next_below(workers));
  run.n = workers - config.sync.backup_workers;
  config.sync.combine = static_cast<CombineMode>(random.next_below(2));
  const bool mean = config.sync.combine == CombineMode::kMean;
  config.train.share = !mean && random.next_below(2) == 0 ? Share::kPool : Share::kEven;
  // A mean counts one for each gradient where there are N of them, as at a last clock that is a whole one.
  config.train.total_iterations = run.n * 30 + (mean ? 0 : static_cast<std::int64_t>(random.next_below(20)));
  config.train.batch_size = 10;
  config.train.optimizer = counting_optimizer(random, config.sync.combine);
  draw_local_steps(seed, config);
  run.rows = random_rows(seed, config);
  return run;
}

}  // namespace paceline::testing
