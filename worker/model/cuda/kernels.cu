// The bodies of bodies.h on a GPU: of the back end the one file that needs nvcc.
#include "common/cuda/launch_each.cuh"
#include "worker/model/cuda/launch.h"

namespace paceline::cuda {
namespace {

// One block for each group of each channel: its threads' parts, then halves onto halves.
template <typename T>
__global__ void each_group(ChannelSums<T> sums) {
  __shared__ double parts[kThreads];
  const unsigned thread = threadIdx.x;
  parts[thread] = sums.part(static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y * kThreads + thread),
                            static_cast<int>(gridDim.y * kThreads));
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) parts[thread] += parts[thread + half];
  }
  if (thread == 0) sums.group_sums[blockIdx.x * gridDim.y + blockIdx.y] = parts[0];
}

template <typename T>
__global__ void each_channel(ChannelSums<T> sums, int groups) {
  const unsigned channel = blockIdx.x * kThreads + threadIdx.x;
  if (channel >= static_cast<unsigned>(sums.channels)) return;
  double sum = 0.0;
  for (int group = 0; group < groups; ++group) sum += sums.group_sums[channel * groups + group];
  sums.sums[channel] = static_cast<float>(sum);
}

}  // namespace

template <typename T>
cudaError_t launch_channel_sums(cudaStream_t stream, const ChannelSums<T>& sums) {
  const auto channels = static_cast<unsigned>(sums.channels);
  const int groups = sums.groups();
  each_group<<<dim3(channels, static_cast<unsigned>(groups)), kThreads, 0, stream>>>(sums);
  if (const cudaError_t failed = cudaGetLastError(); failed != cudaSuccess) return failed;
  each_channel<<<(channels - 1) / kThreads + 1, kThreads, 0, stream>>>(sums, groups);
  return cudaGetLastError();
}

PACELINE_CUDA_BODIES(PACELINE_INSTANTIATE_LAUNCH)
PACELINE_CUDA_POOL_BODIES(PACELINE_INSTANTIATE_LAUNCH)
PACELINE_CUDA_FILTER_BODIES(PACELINE_INSTANTIATE_LAUNCH)
PACELINE_CUDA_SUM_BODIES(PACELINE_INSTANTIATE_LAUNCH)
PACELINE_CUDA_OWN_UPDATE_BODIES(PACELINE_INSTANTIATE_LAUNCH)
template cudaError_t launch_channel_sums(cudaStream_t, const ChannelSums<float>&);
template cudaError_t launch_channel_sums(cudaStream_t, const ChannelSums<Bfloat16>&);

}  // namespace paceline::cuda
