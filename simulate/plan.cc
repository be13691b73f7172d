#include "simulate/plan.h"

#include <algorithm>
#include <utility>

#include "common/cache/own_updates.h"
#include "common/config/cluster_events.h"
#include "common/config/engine_config.h"
#include "common/config/names.h"
#include "common/network/network.h"
#include "common/network/stages.h"
#include "common/params/shard_ranges.h"
#include "worker/client/shard_part.h"

namespace paceline::simulate {
namespace {

// Whether the policy, or a stage of it, looks at how well training goes.
bool follows_metric(const SyncSection& sync) {
  const auto does = [](const PolicyStage& stage) {
    return stage.policy == PolicyKind::kDtssp || stage.until.end == StageEnd::kTrainAccuracy ||
           stage.until.end == StageEnd::kTrainLoss;
  };
  return sync.policy == PolicyKind::kDtssp || std::any_of(sync.stages.begin(), sync.stages.end(), does);
}

Status check_assumptions(const RunConfig& config, bool timed_by_trace) {
  const bool timed = timed_by_trace || config.emulate.base_step ||
                     config.simulate.compute.distribution != ComputeKind::kEmulated;
  if (!timed) {
    return invalid_argument(
        "simulate.compute.distribution: nothing says how long an iteration takes, got emulated without "
        "emulate.base_step, expected emulate.base_step, another distribution with a mean, or --trace RUN");
  }
  if (config.simulate.mode == SimulateMode::kTraining) return Status::ok();
  const SimulatedMetric& metric = config.simulate.metric;
  if (follows_metric(config.sync) && metric.curve.empty() && !metric.final_accuracy) {
    return invalid_argument(
        std::string("sync.policy: ") + name_of(config.sync.policy) +
        " follows a training metric and timing mode computes none, got no "
        "simulate.metric, expected simulate.metric.curve, simulate.metric.final_accuracy or "
        "simulate.mode: training");
  }
  if (config.run.target_accuracy) {
    return invalid_argument(
        "run.target_accuracy: timing mode evaluates nothing, got a target, expected null, or simulate.mode: "
        "training");
  }
  return Status::ok();
}

}  // namespace

Result<Plan> make_plan(const RunConfig& config, std::unique_ptr<ComputeTimes> compute_times,
                       const Layout* layout) {
  PACELINE_RETURN_IF_ERROR(check_assumptions(config, compute_times != nullptr));
  Plan plan;
  plan.config = config;
  plan.engine = engine_config(config);
  plan.cluster = config.cluster.cluster();
  // Whoever does not come later is there at once.
  plan.engine.nodes_at_start.reset();
  const std::vector<bool> late = late_nodes(config);
  if (const auto absent = std::count(late.begin(), late.end(), true); absent > 0) {
    plan.engine.nodes_at_start = plan.cluster.nodes - static_cast<std::uint32_t>(absent);
  }
  plan.keeps_own_updates = cache::keeps_own_updates(sync::largest_threshold(plan.engine.policy));
  plan.applies_at_once = config.train.optimizer.kind != OptimizerKind::kSgd;
  plan.missing_max = cache::missing_max(sync::largest_threshold(plan.engine, ApplyMode::kVersioned),
                                        sync::largest_threshold(plan.engine, ApplyMode::kEager));
  plan.apply_threads = config.cluster.apply_threads.value_or(1);
  Layout own;
  if (layout == nullptr) {
    PACELINE_ASSIGN_OR_RETURN(NetworkSpec network, build_network(config));
    own = std::move(network.layout);
    layout = &own;
  }
  plan.floats = layout->size();
  const std::vector<Range> ranges = shard_ranges(*layout, config.train.optimizer, config.cluster.shards);
  plan.fragments = partition(plan.floats, config.exchange.fragments);
  plan.shards = message_sizes(config.cluster, ranges, plan.fragments);
  plan.slices = slice_sizes(config.cluster, ranges, plan.fragments);
  if (config.pipeline.enabled()) {
    PACELINE_ASSIGN_OR_RETURN(const NetworkSpec network, build_network(config));
    PACELINE_ASSIGN_OR_RETURN(const auto stages, stages_of_run(config, network));
    for (const Range& held : held_by_stages(stages, config.pipeline.stages)) {
      const auto trained = own_ranges(trained_parts(ranges, held));
      plan.of_stage.push_back(message_sizes(config.cluster, trained));
    }
  }
  const SimulatedCosts& costs = config.simulate.costs;
  plan.costs = {costs.message, costs.batch, costs.apply, costs.local_apply, costs.copy};
  plan.compute_times = compute_times ? std::move(compute_times) : make_compute_times(config);
  PACELINE_ASSIGN_OR_RETURN(plan.metric, make_metric_model(config));
  return plan;
}

}  // namespace paceline::simulate
