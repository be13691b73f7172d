// RunPlan: one random run, drawn from its seed: the configuration, who is slow, who dies, leaves, comes or
// is cut off, and when. The same seed gives the same plan and the same run, so a failure is repeated by its
// seed alone.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/sync/engine_config.h"

namespace paceline::test {

// For a while nothing goes between a node and one server, or all, or between a shard's server and the
// authority's.
struct LinkCut {
  std::optional<NodeId> node;     // none: the server's connection to the authority
  std::optional<ShardId> server;  // none: all
  std::int64_t at_ns = 0, for_ns = 0;
};

struct RunPlan {
  std::uint64_t seed = 0;
  sync::EngineConfig config;
  std::optional<std::int64_t> refresh_clocks;  // cache::FreshnessRules
  bool pulls_before_push = true;               // there, too
  std::int64_t mini_batch = 0;                // of a round's local steps, if it has any (common/step/grant.h)
  std::vector<double> slowdown;               // per node
  std::map<NodeId, std::int64_t> dies_at_ns;  // silently, messages cut off half-way
  std::map<WorkerId, Clock> leaves_at;        // its node does, after half a push of this clock, and says so
  std::map<NodeId, std::int64_t> comes_at_ns;       // late: it is not there at the start
  std::map<NodeId, std::int64_t> returns_after_ns;  // once it is lost, the first time
  std::vector<LinkCut> cuts;
  std::int64_t lease_ns = 30'000'000;  // a node cut off for longer is lost
  // All servers die; each time is counted from the begin of a generation, and waits for a checkpoint.
  std::vector<std::int64_t> crashes_at_ns;
  std::optional<std::int64_t> stop_at_ns;
  std::optional<std::int64_t> quiesces_at_ns;  // of a generation: from then on it is quiesced, once
  double nan_chance = 0.0;                     // the worker finds it: an empty iteration
  double corrupt_chance = 0.0;                 // a shard finds it: an invalid gradient
  double duplicate_chance = 0.0;               // an arrival is announced twice
  // Balanced batches: it is said to be of other samples than were granted first, or its report is.
  double other_samples_chance = 0.0;

  bool turns_eager() const {
    return config.apply == ApplyMode::kVersioned && is_ever_eager(config.policy.stages, config.apply);
  }
  std::string describe() const;
};

RunPlan plan_of(std::uint64_t seed);

}  // namespace paceline::test
