// What CUDA's run time answers, as a Status that names the call and the reason: "cudaMalloc: out of memory".
// It reports failures of earlier, asynchronous work in whatever is called next; the call that is
// named is then the one that was told.
//
// It also keeps each failure until it is asked for it, and a kernel's launch asks. What status_of() has been
// told is therefore taken back: who goes on without what failed must not find it at the next launch.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "common/status.h"

namespace paceline::cuda {

// `call`: the call as it is written; its name is all that stands before the first parenthesis.
// kResourceExhausted: no memory; kUnavailable: no device or no driver that fits; kInternal: the rest.
Status status_of(cudaError_t error, const char* call);

// So that the calling thread's next launch does not answer with a failure that has been dealt with.
void forget_last_error();

// The line of a failure: the call's name, and why.
std::string failure_line(const char* call, const std::string& reason);

// PACELINE_CUDA(cudaStreamSynchronize(stream)); returns its Status from the enclosing function when it fails.
// Of other libraries of CUDA's, too, where their status_of() is declared.
#define PACELINE_CUDA(call) PACELINE_RETURN_IF_ERROR(::paceline::cuda::status_of((call), #call))

}  // namespace paceline::cuda
