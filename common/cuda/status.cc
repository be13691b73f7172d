#include "common/cuda/status.h"

namespace paceline::cuda {
namespace {

StatusCode code_of(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return StatusCode::kResourceExhausted;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInvalidDevice:
    case cudaErrorDevicesUnavailable:
      return StatusCode::kUnavailable;
    default:
      return StatusCode::kInternal;
  }
}

}  // namespace

void forget_last_error() { static_cast<void>(cudaGetLastError()); }

std::string failure_line(const char* call, const std::string& reason) {
  const std::string written = call;
  return written.substr(0, written.find('(')) + ": " + reason;
}

Status status_of(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return Status::ok();
  forget_last_error();
  return {code_of(error), failure_line(call, cudaGetErrorString(error))};
}

}  // namespace paceline::cuda
