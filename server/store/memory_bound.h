// How much memory a shard needs and may come to need (docs/ARCHITECTURE.md, "Parameters in memory"): one
// formula for the server, which refuses a model that cannot fit, and for `paceline doctor`, which says so
// before.
#pragma once

#include <cstdint>

#include "common/config/run_config.h"

namespace paceline::server {

// Bytes.
struct MemoryBound {
  // The parameters twice, the optimizer's state and, with delay
  // compensation, what each worker computes with: no run does with less.
  double least = 0.0;
  // With two retained versions, an image that a checkpoint is written of, and with as many gradients of each
  // worker as the shard may hold. Where gradients are read in place they lie in the nodes' memory instead.
  double most = 0.0;
};

// Of a shard of `floats`.
MemoryBound memory_bound(std::int64_t floats, const RunConfig& config);

// A checkpoint's file of a shard of `floats`: parameters, optimizer state and delay compensation's mean
// square.
double image_bytes(std::int64_t floats, const RunConfig& config);

}  // namespace paceline::server
