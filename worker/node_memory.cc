#include "worker/node_memory.h"

#include "worker/train/gradient_buffers.h"

namespace paceline {

std::size_t usual_bytes(const ClusterSection& cluster, std::int64_t floats) {
  constexpr std::size_t kPerThread = 2 + GradientBuffers::kBuffersMax;
  const std::size_t vectors = kPerThread * cluster.threads_per_node + 2;
  return vectors * sizeof(float) * static_cast<std::size_t>(floats);
}

}  // namespace paceline
