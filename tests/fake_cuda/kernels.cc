// The back end's own kernels (worker/model/cuda/launch.h) of the fake GPU.
#include "tests/fake_cuda/launch_each.h"
#include "worker/model/cuda/launch.h"

namespace paceline::cuda {

template <typename T>
cudaError_t launch_channel_sums(cudaStream_t stream, const ChannelSums<T>& sums) {
  FAKE_CUDA_CALL(cudaErrorLaunchFailure);
  const cudaError_t queued = device.enqueue(__func__, stream, [sums] {
    for (int channel = 0; channel < sums.channels; ++channel) {
      // In as many parts as a GPU's blocks have threads.
      const int parts = 256 * sums.groups();
      double sum = 0.0;
      for (int part = 0; part < parts; ++part) sum += sums.part(channel, part, parts);
      sums.sums[channel] = static_cast<float>(sum);
    }
  });
  return queued == cudaSuccess ? cudaGetLastError() : queued;
}

PACELINE_CUDA_BODIES(PACELINE_INSTANTIATE_LAUNCH)
PACELINE_CUDA_POOL_BODIES(PACELINE_INSTANTIATE_LAUNCH)
PACELINE_CUDA_FILTER_BODIES(PACELINE_INSTANTIATE_LAUNCH)
PACELINE_CUDA_SUM_BODIES(PACELINE_INSTANTIATE_LAUNCH)
PACELINE_CUDA_OWN_UPDATE_BODIES(PACELINE_INSTANTIATE_LAUNCH)
template cudaError_t launch_channel_sums(cudaStream_t, const ChannelSums<float>&);
template cudaError_t launch_channel_sums(cudaStream_t, const ChannelSums<Bfloat16>&);

}  // namespace paceline::cuda
