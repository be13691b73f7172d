// The back end's own kernels (worker/model/cuda/launch.h) of the fake GPU.
#include "tests/fake_cuda/launch_each.h"
#include "worker/model/cuda/launch.h"

namespace paceline::cuda {

template <typename Sums>
cudaError_t launch_channel_sums(cudaStream_t stream, const Sums& sums) {
  FAKE_CUDA_CALL(cudaErrorLaunchFailure);
  const cudaError_t queued = device.enqueue(__func__, stream, [sums] {
    for (int channel = 0; channel < sums.shape.channels; ++channel) {
      // In as many parts as a GPU's blocks have threads.
      const int parts = 256 * sums.shape.groups();
      typename Sums::Sum sum{};
      for (int part = 0; part < parts; ++part) sum += sums.part(channel, part, parts);
      sums.finish(channel, sum);
    }
  });
  return queued == cudaSuccess ? cudaGetLastError() : queued;
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
