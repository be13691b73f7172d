#include "server/store/memory_bound.h"

#include <unistd.h>

#include "server/store/shard.h"
#include "server/store/shard_settings.h"

namespace paceline::server {

MemoryBound memory_bound(std::int64_t floats, const RunConfig& config) {
  const OptimizerSection& optimizer = config.train.optimizer;
  const double workers = config.cluster.cluster().workers();
  const auto gradients = static_cast<double>(shard_settings(config).gradients_max);
  double state = optimizer.kind == OptimizerKind::kAdam       ? 2.0
                 : optimizer.kind == OptimizerKind::kMomentum ? 1.0
                                                              : 0.0;
  const CompensationKind compensation = optimizer.delay_compensation.kind;
  if (compensation == CompensationKind::kAdaptive) state += 1.0;
  double vectors_most = 2.0 + static_cast<double>(kRetainedMax) + state + workers * gradients;
  if (config.checkpoint.enabled()) vectors_most += 1.0 + state;  // an image that is being written
  if (compensation != CompensationKind::kNone) {
    state += workers;
    vectors_most += workers * (gradients + 3.0);
  }
  const double vector = static_cast<double>(floats) * sizeof(float);
  return {vector * (2.0 + state), vector * vectors_most};
}

double physical_memory_bytes() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace paceline::server
