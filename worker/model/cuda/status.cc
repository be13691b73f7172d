#include "worker/model/cuda/status.h"

#include <array>
#include <string>

namespace paceline::cuda {
namespace {

std::string line(const char* call, const std::string& reason) {
  const std::string written = call;
  return written.substr(0, written.find('(')) + ": " + reason;
}

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

Status status_of(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return Status::ok();
  return {code_of(error), line(call, cudaGetErrorString(error))};
}

Status status_of(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return Status::ok();
  std::string reason = cudnnGetErrorString(status);
  // What exactly it did not like; empty when it does not say.
  std::array<char, 512> detail{};
  cudnnGetLastErrorString(detail.data(), detail.size());
  if (detail[0] != '\0') reason += std::string(" (") + detail.data() + ")";
  const bool memory = status == CUDNN_STATUS_ALLOC_FAILED;
  return {memory ? StatusCode::kResourceExhausted : StatusCode::kInternal, line(call, reason)};
}

Status status_of(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return Status::ok();
  const bool memory = status == CUBLAS_STATUS_ALLOC_FAILED;
  return {memory ? StatusCode::kResourceExhausted : StatusCode::kInternal,
          line(call, cublasGetStatusString(status))};
}

}  // namespace paceline::cuda
