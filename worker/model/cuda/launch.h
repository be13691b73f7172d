// The back end's bodies (bodies.h), and running them (common/cuda/launch.h). kernels.cu defines it for a GPU,
// tests/fake_cuda/kernels.cc for the tests' fake one: nothing else needs nvcc.
#pragma once

#include <cuda_runtime_api.h>

#include "common/cuda/launch.h"
#include "worker/model/cuda/average_bodies.h"
#include "worker/model/cuda/bodies.h"
#include "worker/model/cuda/filter_bodies.h"
#include "worker/model/cuda/norm_bodies.h"
#include "worker/model/cuda/own_update_bodies.h"
#include "worker/model/cuda/pool_bodies.h"
#include "worker/model/cuda/sum_bodies.h"

namespace paceline::cuda {

// Adds up sums.part() for each channel, always in the same order, with what that writes; then sums.finish() of each
// (sum_bodies.h).
template <typename Sums>
cudaError_t launch_channel_sums(cudaStream_t stream, const Sums& sums);

// What it is there for: X(type).
#define PACELINE_CUDA_CHANNEL_SUMS_OF(X, T) \
  X(ChannelSums<T>)                         \
  X(NormMoments<T>)                         \
  X(NormGradient<T>)
#define PACELINE_CUDA_CHANNEL_SUMS(X)        \
  PACELINE_CUDA_CHANNEL_SUMS_OF(X, float)    \
  PACELINE_CUDA_CHANNEL_SUMS_OF(X, Bfloat16) \
  PACELINE_CUDA_CHANNEL_SUMS_OF(X, Float16)
#define PACELINE_INSTANTIATE_CHANNEL_SUMS(...) \
  template cudaError_t launch_channel_sums(cudaStream_t, const __VA_ARGS__&);

}  // namespace paceline::cuda
