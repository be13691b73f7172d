// The back end's bodies (bodies.h), and running them (common/cuda/launch.h). kernels.cu defines it for a GPU,
// tests/fake_cuda/kernels.cc for the tests' fake one: nothing else needs nvcc.
#pragma once

#include <cuda_runtime_api.h>

#include "common/cuda/launch.h"
#include "worker/model/cuda/bodies.h"
#include "worker/model/cuda/filter_bodies.h"
#include "worker/model/cuda/own_update_bodies.h"
#include "worker/model/cuda/pool_bodies.h"
#include "worker/model/cuda/sum_bodies.h"

namespace paceline::cuda {

// Adds up sums.part() for each channel, always in the same order; with what that does to sums.values.
template <typename T>
cudaError_t launch_channel_sums(cudaStream_t stream, const ChannelSums<T>& sums);

}  // namespace paceline::cuda
