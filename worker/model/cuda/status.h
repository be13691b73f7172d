// What a CUDA library answers, as a Status that names the call and the reason: "cudaMalloc: out of memory".
// CUDA's run time reports failures of earlier, asynchronous work in whatever is called next; the call that is
// named is then the one that was told.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include "common/status.h"

namespace paceline::cuda {

// `call`: the call as it is written; its name is all that stands before the first parenthesis.
// kResourceExhausted: no memory; kUnavailable: no device or no driver that fits; kInternal: the rest.
Status status_of(cudaError_t error, const char* call);
Status status_of(cudnnStatus_t status, const char* call);
Status status_of(cublasStatus_t status, const char* call);

// PACELINE_CUDA(cudaStreamSynchronize(stream)); returns its Status from the enclosing function when it fails.
#define PACELINE_CUDA(call) PACELINE_RETURN_IF_ERROR(::paceline::cuda::status_of((call), #call))

}  // namespace paceline::cuda
