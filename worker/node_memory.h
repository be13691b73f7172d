// How much memory a node's parameters and gradients take: for the node, which asks for huge pages, and for
// `paceline doctor`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/config/run_config.h"

namespace paceline {

// Bytes that lie in a node's process at once in the steady state, for a model of `floats`: each thread's
// parameters, gradients and local state, those of its local steps, the process cache and an answer that arrives.
std::size_t usual_bytes(const RunConfig& config, std::int64_t floats);

}  // namespace paceline
