// Running a body (bodies.h) for many indices. kernels.cu defines both functions for a GPU,
// tests/fake_cuda/kernels.cc for the tests' fake one: nothing else needs nvcc.
#pragma once

#include <cuda_runtime_api.h>

#include "worker/model/cuda/bodies.h"

namespace paceline::cuda {

// body(0) … body(indices - 1), in any order, in turn in `stream`; returns without waiting. What the launch
// itself can fail with is returned. indices >= 0.
template <typename Body>
cudaError_t launch_each(cudaStream_t stream, int indices, const Body& body);

// Adds up sums.part() for each channel, always in the same order.
template <typename T>
cudaError_t launch_channel_sums(cudaStream_t stream, const ChannelSums<T>& sums);

}  // namespace paceline::cuda
