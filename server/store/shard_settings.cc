// The few numbers that do not stand in the configuration as they are.
#include "server/store/shard_settings.h"

#include <algorithm>

#include "common/cache/own_updates.h"
#include "common/config/engine_config.h"
#include "common/config/planned.h"

namespace paceline::server {
namespace {

// Of a machine with many cores half are the workers'. On a small one more than a few gain nothing: they take
// all that the memory gives.
constexpr std::uint32_t kFewCores = 8;
constexpr std::uint32_t kApplyThreadsMax = 8;
constexpr std::uint32_t kApplyThreadsOfFew = 4;

std::uint32_t usual_threads(std::uint32_t cores) {
  return cores > kFewCores ? std::min(cores / 2, kApplyThreadsMax)
                           : std::clamp(cores, 1U, kApplyThreadsOfFew);
}

}  // namespace

ShardSettings shard_settings(const RunConfig& config, std::uint32_t cores) {
  ShardSettings settings;
  settings.optimizer = config.train.optimizer;
  settings.cluster = config.cluster.cluster();
  settings.block_floats = std::max<std::int64_t>(1, config.cluster.frame_bytes / std::int64_t{sizeof(float)});
  const sync::EngineConfig engine = engine_config(config);
  const auto versioned = sync::largest_threshold(engine, ApplyMode::kVersioned);
  const auto eager = sync::largest_threshold(engine, ApplyMode::kEager);
  settings.gradients_max = static_cast<std::size_t>(versioned.value_or(Threshold(0)).value()) + 2;
  if (engine.grants_ahead) {
    ++settings.gradients_max;
    settings.room_kept = 2;
  }
  settings.missing_max = cache::missing_max(versioned, eager);
  settings.gradient_encoding = config.cluster.gradient_encoding;
  settings.apply_threads = config.cluster.apply_threads.value_or(usual_threads(cores));
  if (cores > kFewCores) settings.apply_alone_floats = ShardSettings::kAloneWithCoresToSpare;
  settings.replaced = config.exchange.kind == ExchangeKind::kAllreduce;
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
