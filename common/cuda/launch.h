// Running a body for many indices: a struct whose call operator does the work of one, PACELINE_HOST_DEVICE
// (common/host_device.h). On a GPU all at once (launch_each.cuh), in the tests one after another
// (tests/fake_cuda/launch_each.h): it is the same code, and nothing else needs nvcc.
#pragma once

#include <cuda_runtime_api.h>

namespace paceline::cuda {

// body(0) … body(indices - 1), in any order, in turn in `stream`; returns without waiting. What the launch
// itself can fail with is returned. indices >= 0. There for the bodies that a file of kernels instantiates it
// with.
template <typename Body>
cudaError_t launch_each(cudaStream_t stream, int indices, const Body& body);

}  // namespace paceline::cuda
