// The bodies of bodies.h on a GPU: the one file that needs nvcc.
#include <algorithm>

#include "worker/model/cuda/launch.h"

namespace paceline::cuda {
namespace {

constexpr unsigned kThreads = 256;         // of a block
constexpr unsigned kBlocksMax = 1U << 16;  // beyond that each thread takes several indices

template <typename Body>
__global__ void each_index(unsigned indices, Body body) {
  for (unsigned i = blockIdx.x * kThreads + threadIdx.x; i < indices; i += gridDim.x * kThreads) {
    body(static_cast<int>(i));
  }
}

// One block for each channel: its threads' parts, then halves onto halves.
template <typename T>
__global__ void each_channel(ChannelSums<T> sums) {
  __shared__ double parts[kThreads];
  const unsigned thread = threadIdx.x;
  parts[thread] = sums.part(static_cast<int>(blockIdx.x), static_cast<int>(thread), kThreads);
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) parts[thread] += parts[thread + half];
  }
  if (thread == 0) sums.sums[blockIdx.x] = static_cast<float>(parts[0]);
}

}  // namespace

template <typename Body>
cudaError_t launch_each(cudaStream_t stream, int indices, const Body& body) {
  if (indices == 0) return cudaSuccess;  // a launch of no block is an error
  const auto count = static_cast<unsigned>(indices);
  const unsigned needed = (count - 1) / kThreads + 1;
  const unsigned blocks = std::min(needed, kBlocksMax);
  each_index<<<blocks, kThreads, 0, stream>>>(count, body);
  return cudaGetLastError();
}

template <typename T>
cudaError_t launch_channel_sums(cudaStream_t stream, const ChannelSums<T>& sums) {
  each_channel<<<static_cast<unsigned>(sums.channels), kThreads, 0, stream>>>(sums);
  return cudaGetLastError();
}

#define PACELINE_INSTANTIATE(...) template cudaError_t launch_each(cudaStream_t, int, const __VA_ARGS__&);
PACELINE_CUDA_BODIES(PACELINE_INSTANTIATE)
template cudaError_t launch_channel_sums(cudaStream_t, const ChannelSums<float>&);
template cudaError_t launch_channel_sums(cudaStream_t, const ChannelSums<Bfloat16>&);

}  // namespace paceline::cuda
