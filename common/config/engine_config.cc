#include "common/config/engine_config.h"

#include <cmath>
#include <limits>

namespace paceline {

// The share as written is off by at most half a unit in the last place, the product by another half.
double iterations_of(double progress, std::int64_t total_iterations) {
  constexpr double kJustBelowOne = 1.0 - 4 * std::numeric_limits<double>::epsilon();
  return std::ceil(progress * static_cast<double>(total_iterations) * kJustBelowOne);
}

sync::EngineConfig engine_config(const RunConfig& config) {
  sync::EngineConfig engine;
  engine.cluster = config.cluster.cluster();
  engine.nodes_at_start = config.cluster.nodes_at_start;
  engine.shards = config.cluster.shards;
  engine.policy.kind = config.sync.policy;
  engine.policy.threshold = config.sync.threshold;
  engine.policy.threshold_min = config.sync.threshold_min;
  engine.policy.threshold_max = config.sync.threshold_max;
  engine.policy.increase_above = config.sync.lpr.increase_above;
  engine.policy.decrease_below = config.sync.lpr.decrease_below;
  engine.policy.backup_workers = config.sync.backup_workers;
  engine.policy.seed = config.run.seed;
  for (PolicyStage stage : config.sync.stages) {
    if (stage.until.end == StageEnd::kProgress) {
      stage.until.end = StageEnd::kIterations;
      stage.until.value = iterations_of(stage.until.value, config.train.total_iterations);
    }
    if (stage.until.end == StageEnd::kIterations) {
      stage.until.value = std::ceil(stage.until.value / static_cast<double>(config.train.local_steps));
    }
    engine.policy.stages.push_back(stage);
  }
  engine.apply = config.sync.apply;
  engine.combine = config.sync.combine;
  engine.share = config.train.share;
  // To the core a round is one iteration, whose samples are those of its mini-batches.
  engine.total_iterations = config.train.rounds();
  engine.batch_size = config.train.round_samples();
  engine.batch_sizing = config.train.sizing();
  if (config.train.local_balance != BatchSizing::kEqual) engine.batch_step = config.train.batch_size;
  engine.lpr_metric = config.sync.lpr.metric;
  engine.window_clocks = config.sync.lpr.window_clocks;
  engine.grants_ahead = config.exchange.hidden;
  engine.on_nan = config.train.on_nan;
  engine.group = config.pipeline.stages;
  if (config.train.on_nan == OnNan::kSkip) engine.skips_max = config.train.skips_max;
  return engine;
}

}  // namespace paceline
