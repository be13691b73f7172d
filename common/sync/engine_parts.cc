#include "common/sync/engine_parts.h"

#include <utility>

#include "common/assert.h"

namespace paceline::sync {
namespace {

EngineConfig checked(EngineConfig config) {
  const Status status = validate(config);
  PACELINE_ASSERT(status.is_ok(), status.message());
  return config;
}

}  // namespace

EngineParts::EngineParts(EngineConfig valid)
    : config(checked(std::move(valid))),
      per_clock(gradients_per_clock(config)),
      policy(make_policy(config.policy)),
      workers(config.cluster, config.shards, config.grants_ahead),
      share(config.share, workers_come_and_go(config) ? Membership::kComeAndGo : Membership::kFixed,
            config.cluster, per_clock, config.total_iterations),
      batches(config.batch_sizing, config.cluster, config.batch_size, config.batch_step,
              config.total_iterations),
      halt(stopped_together(config)) {}

}  // namespace paceline::sync
