#include "server/store/memory_bound.h"

#include "common/params/optimizer.h"
#include "server/store/shard.h"
#include "server/store/shard_settings.h"

namespace paceline::server {

namespace {

// Vectors as long as the parameters that applying keeps beside them.
double kept_vectors(const OptimizerSection& optimizer) {
  return state_vectors(optimizer.kind) +
         (optimizer.delay_compensation.kind == CompensationKind::kAdaptive ? 1.0 : 0.0);
}

double vector_bytes(std::int64_t floats) { return static_cast<double>(floats) * sizeof(float); }

}  // namespace

double image_bytes(std::int64_t floats, const RunConfig& config) {
  return vector_bytes(floats) * (1.0 + kept_vectors(config.train.optimizer));
}

MemoryBound memory_bound(std::int64_t floats, const RunConfig& config) {
  const OptimizerSection& optimizer = config.train.optimizer;
  const double workers = config.cluster.cluster().workers();
  const auto gradients = static_cast<double>(shard_settings(config).gradients_max);
  const double image_state = kept_vectors(optimizer);
  // Under LARS and LAMB the whole mean gradient, too.
  double state = image_state + (measures_tensors(optimizer.kind) ? 1.0 : 0.0);
  const CompensationKind compensation = optimizer.delay_compensation.kind;
  double vectors_most = 2.0 + static_cast<double>(kRetainedMax) + state + workers * gradients;
  if (config.checkpoint.enabled()) vectors_most += 1.0 + image_state;  // an image that is being written
  if (compensation != CompensationKind::kNone) {
    state += workers;
    vectors_most += workers * (gradients + 3.0);
  }
  const double vector = vector_bytes(floats);
  return {vector * (2.0 + state), vector * vectors_most};
}

}  // namespace paceline::server
