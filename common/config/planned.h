// How many versions a configuration means, where nobody is lost.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/config/run_config.h"
#include "common/sync/backup.h"

namespace paceline {

// Iterations that are applied for each clock: one of each worker, less those that a backup policy drops. At
// least 1, also of a configuration that is yet to be refused.
inline std::int64_t iterations_of_a_clock(const RunConfig& config) {
  const std::int64_t workers = std::int64_t{config.cluster.nodes} * config.cluster.threads_per_node;
  const bool backup = config.sync.policy == PolicyKind::kBackup;
  return std::max<std::int64_t>(1, backup ? sync::first_n(workers, config.sync.backup_workers) : workers);
}

// Samples that one step of a schedule's rate is of: of all configured workers where their gradients are averaged, else
// of one; a worker's own for its inner optimizer (`inner`).
inline std::int64_t samples_of_a_step(const RunConfig& config, bool inner) {
  const bool together = !inner && config.sync.combine == CombineMode::kMean;
  return config.train.batch_size * (together ? iterations_of_a_clock(config) : 1);
}

// Versions of the run: as many as a worker has iterations, when all have as many. With local steps a version of
// a schedule is still one mini-batch of each worker, so schedules mean the same for any number of them.
inline std::int64_t planned_versions(const RunConfig& config) {
  const std::int64_t per_clock = iterations_of_a_clock(config);
  return (config.train.total_iterations + per_clock - 1) / per_clock;
}

// The rounds of the run from this one on are the last ones of their workers, where nobody is lost. Of a pool a fast
// worker may end with an earlier one.
inline std::int64_t last_rounds_from(const RunConfig& config) {
  return config.train.rounds() - std::int64_t{config.cluster.nodes} * config.cluster.threads_per_node;
}

}  // namespace paceline
