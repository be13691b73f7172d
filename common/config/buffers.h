// What tensors with the role buffer (common/params/layout.h) do not survive on their way to the servers: their new
// values stand in a gradient's place. Asked of built-in networks here, of other models by worker/foreign.
#pragma once

#include "common/config/run_config.h"

namespace paceline {

// An encoding that keeps a gradient's sum over the rounds would lose the values of each.
inline bool loses_buffers(const ClusterSection& cluster) {
  return cluster.gradient_encoding == Encoding::kInt8 || cluster.gradient_encoding == Encoding::kTopK;
}

// Where the mean is taken, a late gradient's factor would apply to the values.
inline bool shrinks_buffers(const RunConfig& config) {
  return config.train.optimizer.staleness != StalenessScaling::kNone &&
         config.sync.combine == CombineMode::kMean;
}

}  // namespace paceline
