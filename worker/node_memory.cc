#include "worker/node_memory.h"

#include "worker/train/gradient_buffers.h"

namespace paceline {

std::size_t usual_bytes(const RunConfig& config, std::int64_t floats) {
  std::size_t per_thread = 2 + GradientBuffers::kBuffersMax;
  if (config.train.has_inner_optimizer) ++per_thread;
  if (config.exchange.fragments > 1) per_thread += 2;  // a mini-batch's gradient, and where parts were cut
  const std::size_t vectors = per_thread * config.cluster.threads_per_node + 2;
  return vectors * sizeof(float) * static_cast<std::size_t>(floats);
}

}  // namespace paceline
