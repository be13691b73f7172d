// The few numbers that do not stand in the configuration as they are.
#include "server/store/shard_settings.h"

#include <algorithm>
#include <thread>

#include "common/cache/own_updates.h"
#include "common/config/engine_config.h"
#include "common/params/schedule.h"

namespace paceline::server {
namespace {

// More gain nothing: a few cores take all that the memory gives.
constexpr std::uint32_t kApplyThreadsMax = 4;

}  // namespace

ShardSettings shard_settings(const RunConfig& config) {
  ShardSettings settings;
  settings.optimizer = config.train.optimizer;
  settings.cluster = config.cluster.cluster();
  settings.block_floats = std::max<std::int64_t>(1, config.cluster.frame_bytes / std::int64_t{sizeof(float)});
  const sync::EngineConfig engine = engine_config(config);
  const auto versioned = sync::largest_threshold(engine, ApplyMode::kVersioned);
  const auto eager = sync::largest_threshold(engine, ApplyMode::kEager);
  settings.gradients_max = static_cast<std::size_t>(versioned.value_or(Threshold(0)).value()) + 2;
  settings.missing_max = cache::missing_max(versioned, eager);
  settings.gradient_encoding = config.cluster.gradient_encoding;
  const std::uint32_t cores = std::clamp(std::thread::hardware_concurrency(), 1u, kApplyThreadsMax);
  settings.apply_threads = config.cluster.apply_threads.value_or(cores);
  settings.apply = config.sync.apply;
  settings.combine = config.sync.combine;
  settings.turns_eager = versioned && eager;
  if (!config.sync.stages.empty()) settings.rate_scale = config.sync.stages.front().lr_scale;
  settings.planned_versions = planned_versions(config);
  settings.local_updates = cache::keeps_own_updates(sync::largest_threshold(engine.policy));
  settings.prepare_next = config.cluster.parameter_encoding == Encoding::kFp32;
  return settings;
}

}  // namespace paceline::server
