#include "worker/model/cuda/resources.h"

#include <string>

namespace paceline::cuda {
namespace {

std::string megabytes(std::size_t bytes) {
  return std::to_string((bytes + (std::size_t{1} << 20) - 1) >> 20) + " MiB";
}

}  // namespace

Result<Stream> make_stream() {
  cudaStream_t stream = nullptr;
  PACELINE_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return Stream(stream);
}

Result<Event> make_event() {
  cudaEvent_t event = nullptr;
  PACELINE_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventBlockingSync));
  return Event(event);
}

Result<CudnnHandle> make_cudnn(cudaStream_t stream) {
  cudnnHandle_t handle = nullptr;
  PACELINE_CUDA(cudnnCreate(&handle));
  CudnnHandle owned(handle);
  PACELINE_CUDA(cudnnSetStream(handle, stream));
  return owned;
}

Result<CublasHandle> make_cublas(cudaStream_t stream) {
  cublasHandle_t handle = nullptr;
  PACELINE_CUDA(cublasCreate_v2(&handle));
  CublasHandle owned(handle);
  PACELINE_CUDA(cublasSetStream_v2(handle, stream));
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

Result<DeviceBytes> allocate_device(std::size_t bytes) {
  if (bytes == 0) return DeviceBytes();
  void* memory = nullptr;
  PACELINE_RETURN_IF_ERROR(
      status_of(cudaMalloc(&memory, bytes), "cudaMalloc").with_context(megabytes(bytes) + " on the GPU"));
  return DeviceBytes(memory);
}

Result<PinnedBytes> allocate_pinned(std::size_t bytes) {
  if (bytes == 0) return PinnedBytes();
  void* memory = nullptr;
  PACELINE_RETURN_IF_ERROR(status_of(cudaHostAlloc(&memory, bytes, cudaHostAllocDefault), "cudaHostAlloc")
                               .with_context(megabytes(bytes) + " of pinned memory"));
  return PinnedBytes(memory);
}

}  // namespace paceline::cuda
