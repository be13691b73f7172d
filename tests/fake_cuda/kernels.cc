// The back end's own kernels (worker/model/cuda/launch.h): the same bodies, one index after another.
#include "tests/fake_cuda/device.h"
#include "worker/model/cuda/launch.h"

namespace paceline::cuda {

template <typename Body>
cudaError_t launch_each(cudaStream_t stream, int indices, const Body& body) {
  FAKE_CUDA_CALL(cudaErrorLaunchFailure);
  return device.enqueue(__func__, stream, [indices, body] {
    for (int i = 0; i < indices; ++i) body(i);
  });
}

template <typename T>
cudaError_t launch_channel_sums(cudaStream_t stream, const ChannelSums<T>& sums) {
  FAKE_CUDA_CALL(cudaErrorLaunchFailure);
  return device.enqueue(__func__, stream, [sums] {
    for (int channel = 0; channel < sums.channels; ++channel) {
      // In as many parts as a GPU's block has threads.
      constexpr int kParts = 256;
      double sum = 0.0;
      for (int part = 0; part < kParts; ++part) sum += sums.part(channel, part, kParts);
      sums.sums[channel] = static_cast<float>(sum);
    }
  });
}

#define PACELINE_INSTANTIATE(...) template cudaError_t launch_each(cudaStream_t, int, const __VA_ARGS__&);
PACELINE_CUDA_BODIES(PACELINE_INSTANTIATE)
template cudaError_t launch_channel_sums(cudaStream_t, const ChannelSums<float>&);
template cudaError_t launch_channel_sums(cudaStream_t, const ChannelSums<Bfloat16>&);

}  // namespace paceline::cuda
