// launch_each() (common/cuda/launch.h) of the fake GPU, for its files of kernels: the same bodies, one index
// after another.
#pragma once

#include "common/cuda/launch.h"
#include "tests/fake_cuda/device.h"

namespace paceline::cuda {

template <typename Body>
cudaError_t launch_each(cudaStream_t stream, int indices, const Body& body) {
  FAKE_CUDA_CALL(cudaErrorLaunchFailure);
  if (indices == 0) return cudaSuccess;
  const cudaError_t queued = device.enqueue(__func__, stream, [indices, body] {
    for (int i = 0; i < indices; ++i) body(i);
  });
  return queued == cudaSuccess ? cudaGetLastError() : queued;
}

// As common/cuda/launch_each.cuh has it.
#define PACELINE_INSTANTIATE_LAUNCH(...) \
  template cudaError_t launch_each(cudaStream_t, int, const __VA_ARGS__&);

}  // namespace paceline::cuda
