// The bodies of bodies.h on a GPU: of the back end the one file that needs nvcc.
#include "common/cuda/launch_each.cuh"
#include "worker/model/cuda/launch.h"

namespace paceline::cuda {
namespace {

// One block for each group of each channel: its threads' parts, then halves onto halves.
template <typename Sums>
__global__ void each_group(Sums sums) {
  __shared__ typename Sums::Sum parts[kThreads];
  const unsigned thread = threadIdx.x;
  parts[thread] = sums.part(static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y * kThreads + thread),
                            static_cast<int>(gridDim.y * kThreads));
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) parts[thread] += parts[thread + half];
  }
  if (thread == 0) sums.group_sums[blockIdx.x * gridDim.y + blockIdx.y] = parts[0];
}

template <typename Sums>
__global__ void each_channel(Sums sums, int groups) {
  const unsigned channel = blockIdx.x * kThreads + threadIdx.x;
  if (channel >= static_cast<unsigned>(sums.shape.channels)) return;
  typename Sums::Sum sum = sums.group_sums[channel * groups];
  for (int group = 1; group < groups; ++group) sum += sums.group_sums[channel * groups + group];
  sums.finish(static_cast<int>(channel), sum);
}

}  // namespace

template <typename Sums>
cudaError_t launch_channel_sums(cudaStream_t stream, const Sums& sums) {
  const auto channels = static_cast<unsigned>(sums.shape.channels);
  const int groups = sums.shape.groups();
  each_group<<<dim3(channels, static_cast<unsigned>(groups)), kThreads, 0, stream>>>(sums);
  if (const cudaError_t failed = cudaGetLastError(); failed != cudaSuccess) return failed;
  each_channel<<<(channels - 1) / kThreads + 1, kThreads, 0, stream>>>(sums, groups);
  return cudaGetLastError();
}

PACELINE_CUDA_BODIES(PACELINE_INSTANTIATE_LAUNCH)
PACELINE_CUDA_AVERAGE_BODIES(PACELINE_INSTANTIATE_LAUNCH)
PACELINE_CUDA_NORM_BODIES(PACELINE_INSTANTIATE_LAUNCH)
PACELINE_CUDA_POOL_BODIES(PACELINE_INSTANTIATE_LAUNCH)
PACELINE_CUDA_FILTER_BODIES(PACELINE_INSTANTIATE_LAUNCH)
PACELINE_CUDA_SUM_BODIES(PACELINE_INSTANTIATE_LAUNCH)
PACELINE_CUDA_OWN_UPDATE_BODIES(PACELINE_INSTANTIATE_LAUNCH)
PACELINE_CUDA_CHANNEL_SUMS(PACELINE_INSTANTIATE_CHANNEL_SUMS)

}  // namespace paceline::cuda
