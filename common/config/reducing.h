// Who sums with whom in an all-reduce (exchange.kind: allreduce): all nodes, each of which is a rank; or, with
// pipeline.stages, the nodes of the same stage, of which each group has one. Of 2 groups of 3 stages, nodes 0 1 2 and 3
// 4 5:
//
//   {0, 3}   {1, 4}   {2, 5}       three all-reduces of two ranks, each of its own stage's parameters
//
// So the nodes of one group have the parameters of the whole network together.
#pragma once

#include <cstdint>

#include "common/config/run_config.h"
#include "common/params/optimizer.h"

namespace paceline {

// Ranks of each all-reduce: the groups.
inline std::uint32_t reducing_ranks(const RunConfig& config) {
  return config.cluster.nodes / config.pipeline.stages;
}

// How many nodes send what is saved of the run's state, the lowest; 1: one sends all. Every owner of a sharded
// optimizer; of stages those of the first group.
inline std::uint32_t state_senders(const RunConfig& config) {
  return config.exchange.shard_optimizer ? config.cluster.nodes : config.pipeline.stages;
}

// How many vectors of a node's parameters an all-reduce keeps there besides those that it computes with: the sum, the
// newest version, the one that is made of it, and the optimizer's state.
inline std::int64_t reducing_vectors(const RunConfig& config) {
  if (config.exchange.kind != ExchangeKind::kAllreduce) return 0;
  return 3 + state_vectors(config.train.optimizer.kind);
}

}  // namespace paceline
