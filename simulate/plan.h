// Plan: everything that is assumed of a simulated run, in the units that the parties need, worked out once
// from the configuration, and from a real run's trace where there is one (trace.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/config/run_config.h"
#include "common/ids.h"
#include "common/params/layout.h"
#include "common/status.h"
#include "common/sync/engine_config.h"
#include "simulate/compute_times.h"
#include "simulate/message_sizes.h"
#include "simulate/metric_model.h"

namespace paceline::simulate {

// What the processes take, in nanoseconds.
struct Costs {
  std::chrono::nanoseconds message{0};  // of a loop, for one message
  std::chrono::nanoseconds batch{0};
  double apply_ns_per_float = 0.0;
  double local_apply_ns_per_float = 0.0;
  double copy_ns_per_float = 0.0;
};

struct Plan {
  RunConfig config;
  sync::EngineConfig engine;
  Cluster cluster;
  bool keeps_own_updates = false;   // cache::keeps_own_updates()
  bool applies_at_once = false;     // the optimizer has a state (worker/cache/thread_cache.h)
  std::int64_t missing_max = 0;     // own gradients that a node may lack (server/store/reply_window.h)
  std::uint32_t apply_threads = 1;  // of a large shard
  std::int64_t floats = 0;          // of the model
  std::vector<Range> fragments;     // of the model (exchange.fragments)
  std::vector<ShardSizes> shards;
  std::vector<SliceSizes> slices;  // of a node's caches, but of a pipeline: there of_stage has them
  std::vector<std::vector<ShardSizes>>
      of_stage;  // of a pipeline, by stage, what it has of each shard; else empty
  Costs costs;
  std::unique_ptr<ComputeTimes> compute_times;
  std::unique_ptr<MetricModel> metric;  // null: nothing is known of how well training goes

  // The slice that a pull of this fragment brings of a shard; none where none of it is there.
  std::optional<std::uint32_t> slice_of(ShardId shard, std::int64_t fragment) const {
    for (std::uint32_t i = shard.value; i < slices.size(); ++i) {
      if (slices[i].shard == shard && slices[i].fragment == fragment) return i;
    }
    return std::nullopt;
  }
  // What of that is sent to `node`.
  const Transfer& answer_to(NodeId node, ShardId shard, std::int64_t fragment) const {
    return of_stage.empty() ? slices[*slice_of(shard, fragment)].parameters
                            : shards_of(node)[shard.value].parameters;
  }
  // Whether that is not all of the shard.
  bool is_part(NodeId node, ShardId shard, std::int64_t fragment) const {
    const std::int64_t own =
        of_stage.empty() ? slices[*slice_of(shard, fragment)].floats : shards_of(node)[shard.value].floats;
    return own != shards[shard.value].floats;
  }
  // What `node` pushes and pulls.
  const std::vector<ShardSizes>& shards_of(NodeId node) const {
    return of_stage.empty() ? shards : of_stage[node.value % of_stage.size()];
  }
};

// Errors, in one line that names the key: kInvalidArgument nothing says how long an iteration takes; in
// timing mode dtssp without a metric, and what needs evaluations (run.target_accuracy); those of
// make_metric_model(). `compute_times`: those of a trace, or null for what the configuration says.
// `layout`: the model's, where that is not the configuration's network; read in the call.
Result<Plan> make_plan(const RunConfig& config, std::unique_ptr<ComputeTimes> compute_times = nullptr,
                       const Layout* layout = nullptr);

}  // namespace paceline::simulate
