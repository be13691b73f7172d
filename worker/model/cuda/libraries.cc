#include "worker/model/cuda/libraries.h"

#include <array>
#include <string>

namespace paceline::cuda {

Status status_of(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return Status::ok();
  forget_last_error();
  std::string reason = cudnnGetErrorString(status);
  // What exactly it did not like; empty when it does not say.
  std::array<char, 512> detail{};
  cudnnGetLastErrorString(detail.data(), detail.size());
  if (detail[0] != '\0') reason += std::string(" (") + detail.data() + ")";
  const bool memory = status == CUDNN_STATUS_ALLOC_FAILED;
  return {memory ? StatusCode::kResourceExhausted : StatusCode::kInternal, failure_line(call, reason)};
}

Status status_of(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return Status::ok();
  forget_last_error();
  const bool memory = status == CUBLAS_STATUS_ALLOC_FAILED;
  return {memory ? StatusCode::kResourceExhausted : StatusCode::kInternal,
          failure_line(call, cublasGetStatusString(status))};
}

Result<CudnnHandle> make_cudnn(cudaStream_t stream) {
  cudnnHandle_t handle = nullptr;
  PACELINE_CUDA(cudnnCreate(&handle));
  CudnnHandle owned(handle);
  PACELINE_CUDA(cudnnSetStream(handle, stream));
  return owned;
}

Result<CublasHandle> make_cublas(cudaStream_t stream, std::span<std::byte> workspace) {
  cublasHandle_t handle = nullptr;
  PACELINE_CUDA(cublasCreate_v2(&handle));
  CublasHandle owned(handle);
  PACELINE_CUDA(cublasSetStream_v2(handle, stream));  // which takes the workspace away
  PACELINE_CUDA(cublasSetWorkspace_v2(handle, workspace.data(), workspace.size()));
  // Else what is computed in parts may be added up as 16 bits where the result has 16.
  PACELINE_CUDA(cublasSetMathMode(handle, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION));
  return owned;
}

Result<TensorDescriptor> make_tensor_descriptor() {
  cudnnTensorDescriptor_t descriptor = nullptr;
  PACELINE_CUDA(cudnnCreateTensorDescriptor(&descriptor));
  return TensorDescriptor(descriptor);
}

Result<FilterDescriptor> make_filter_descriptor() {
  cudnnFilterDescriptor_t descriptor = nullptr;
  PACELINE_CUDA(cudnnCreateFilterDescriptor(&descriptor));
  return FilterDescriptor(descriptor);
}

Result<ConvolutionDescriptor> make_convolution_descriptor() {
  cudnnConvolutionDescriptor_t descriptor = nullptr;
  PACELINE_CUDA(cudnnCreateConvolutionDescriptor(&descriptor));
  return ConvolutionDescriptor(descriptor);
}

}  // namespace paceline::cuda
