// launch_each() (launch.h) on a GPU, for the files of kernels, which nvcc compiles.
#pragma once

#include <algorithm>

#include "common/cuda/launch.h"

namespace paceline::cuda {

inline constexpr unsigned kThreads = 256;         // of a block
inline constexpr unsigned kBlocksMax = 1U << 16;  // beyond that each thread takes several indices

template <typename Body>
__global__ void each_index(unsigned indices, Body body) {
  for (unsigned i = blockIdx.x * kThreads + threadIdx.x; i < indices; i += gridDim.x * kThreads) {
    body(static_cast<int>(i));
  }
}

template <typename Body>
cudaError_t launch_each(cudaStream_t stream, int indices, const Body& body) {
  if (indices == 0) return cudaSuccess;  // a launch of no block is an error
  const auto count = static_cast<unsigned>(indices);
  const unsigned needed = (count - 1) / kThreads + 1;
  const unsigned blocks = std::min(needed, kBlocksMax);
  each_index<<<blocks, kThreads, 0, stream>>>(count, body);
  return cudaGetLastError();
}

// For the lists of bodies: X(type).
#define PACELINE_INSTANTIATE_LAUNCH(...) \
  template cudaError_t launch_each(cudaStream_t, int, const __VA_ARGS__&);

}  // namespace paceline::cuda
