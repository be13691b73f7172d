// The CUDA run time's calls.
#include <cuda_runtime_api.h>

#include <cstring>

#include "tests/fake_cuda/device.h"

using paceline::fake_cuda::Device;
using paceline::fake_cuda::Kind;

namespace paceline::fake_cuda {
namespace {

thread_local int current = 0;

}  // namespace

int current_gpu() { return current; }

}  // namespace paceline::fake_cuda

extern "C" {

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    default:
      return "another error";
  }
}

cudaError_t cudaGetDeviceCount(int* count) {
  FAKE_CUDA_CALL(cudaErrorInsufficientDriver);
  *count = device.machine.gpus;
  return *count == 0 ? cudaErrorNoDevice : cudaSuccess;
}

cudaError_t cudaSetDevice(int gpu) {
  FAKE_CUDA_CALL(cudaErrorDevicesUnavailable);
  if (gpu < 0 || gpu >= device.machine.gpus) {
    return device.mistake("cudaSetDevice: a GPU that is not there", cudaErrorInvalidDevice);
  }
  paceline::fake_cuda::current = gpu;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  FAKE_CUDA_CALL(cudaErrorInvalidValue);
  if (attribute != cudaDevAttrComputeCapabilityMajor) {
    return device.mistake("cudaDeviceGetAttribute: one that is not told here", cudaErrorInvalidValue);
  }
  *value = device.machine.capability;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  FAKE_CUDA_CALL(cudaErrorMemoryAllocation);
  *memory = device.allocate(bytes, Kind::kDevice);
  return cudaSuccess;
}

// Waits for the whole GPU, as the real one does.
cudaError_t cudaFree(void* memory) {
  FAKE_CUDA_RELEASE();
  device.note_wait(__func__);
  device.finish_all();
  if (memory == nullptr || device.free(memory, Kind::kDevice)) return cudaSuccess;
  return device.mistake("cudaFree: memory that is not the GPU's", cudaErrorInvalidValue);
}

// Portable memory is the default where addresses are unified.
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  FAKE_CUDA_CALL(cudaErrorMemoryAllocation);
  *memory = device.allocate(bytes, Kind::kPinned);
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* memory) {
  FAKE_CUDA_RELEASE();
  if (memory == nullptr || device.free(memory, Kind::kPinned)) return cudaSuccess;
  return device.mistake("cudaFreeHost: memory that is not pinned", cudaErrorInvalidValue);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  FAKE_CUDA_CALL(cudaErrorLaunchFailure);
  const Kind source = kind == cudaMemcpyHostToDevice ? Kind::kPinned : Kind::kDevice;
  const Kind target = kind == cudaMemcpyDeviceToHost ? Kind::kPinned : Kind::kDevice;
  if (!device.is_inside(from, bytes, source) || !device.is_inside(to, bytes, target)) {
    return device.mistake("cudaMemcpyAsync: outside of what was allocated", cudaErrorInvalidValue);
  }
  return device.enqueue(__func__, stream, [=] { std::memcpy(to, from, bytes); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  FAKE_CUDA_CALL(cudaErrorMemoryAllocation);
  *stream = device.make<CUstream_st>();
  (*stream)->gpu = paceline::fake_cuda::current_gpu();
  return cudaSuccess;
}

// What is still waiting is done first.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  FAKE_CUDA_RELEASE();
  if (device.is_alive(stream)) device.finish(stream);
  if (device.destroy(stream)) return cudaSuccess;
  return device.mistake("cudaStreamDestroy: a stream that is not there", cudaErrorInvalidResourceHandle);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  FAKE_CUDA_CALL(cudaErrorLaunchFailure);
  if (!device.is_alive(stream)) {
    return device.mistake("cudaStreamSynchronize: a stream that is not there",
                          cudaErrorInvalidResourceHandle);
  }
  device.note_wait(__func__);
  device.finish(stream);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  FAKE_CUDA_CALL(cudaErrorMemoryAllocation);
  *event = device.make<CUevent_st>();
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  FAKE_CUDA_RELEASE();
  device.finish_all();  // work that names it
  if (device.destroy(event)) return cudaSuccess;
  return device.mistake("cudaEventDestroy: an event that is not there", cudaErrorInvalidResourceHandle);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  FAKE_CUDA_CALL(cudaErrorLaunchFailure);
  if (!device.is_alive(event)) {
    return device.mistake("cudaEventRecord: an event that is not there", cudaErrorInvalidResourceHandle);
  }
  event->stream = stream;
  const std::int64_t record = ++event->recorded;
  return device.enqueue(__func__, stream, [event, record] { event->passed = record; });
}

// For what was recorded last when it is called.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  FAKE_CUDA_CALL(cudaErrorLaunchFailure);
  if (!device.is_alive(event)) {
    return device.mistake("cudaStreamWaitEvent: an event that is not there", cudaErrorInvalidResourceHandle);
  }
  const std::int64_t record = event->recorded;
  return device.enqueue(__func__, stream, [&device, event, record] { device.finish(event, record); });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  FAKE_CUDA_CALL(cudaErrorLaunchFailure);
  if (!device.is_alive(event)) {
    return device.mistake("cudaEventSynchronize: an event that is not there", cudaErrorInvalidResourceHandle);
  }
  device.note_wait(__func__);
  device.finish(event, event->recorded);
  return cudaSuccess;
}

}  // extern "C"
