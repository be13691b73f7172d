// The CUDA run time's calls.
#include <cuda_runtime_api.h>

#include <cstring>
#include <utility>
#include <vector>

#include "tests/fake_cuda/device.h"

using paceline::fake_cuda::Access;
using paceline::fake_cuda::Device;
using paceline::fake_cuda::Kind;

namespace paceline::fake_cuda {
namespace {

thread_local int current = 0;
thread_local cudaError_t last_failure = cudaSuccess;

}  // namespace

int current_gpu() { return current; }
void note_failure(cudaError_t error) { last_failure = error; }

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

cudaError_t cudaGetLastError() { return std::exchange(paceline::fake_cuda::last_failure, cudaSuccess); }

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

cudaError_t cudaGetDevice(int* gpu) {
  FAKE_CUDA_CALL(cudaErrorDevicesUnavailable);
  *gpu = paceline::fake_cuda::current_gpu();
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

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  FAKE_CUDA_CALL(cudaErrorInvalidValue);
  *free = device.machine.free_bytes;
  *total = *free;
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

cudaError_t cudaHostRegister(void* memory, size_t bytes, unsigned flags) {
  FAKE_CUDA_CALL(cudaErrorMemoryAllocation);
  const bool read_only = (flags & cudaHostRegisterReadOnly) != 0;
  if (device.pin(memory, bytes, read_only ? Access::kReadOnly : Access::kBoth)) return cudaSuccess;
  return device.mistake("cudaHostRegister: not whole pages, or pinned already", cudaErrorInvalidValue);
}

cudaError_t cudaHostUnregister(void* memory) {
  FAKE_CUDA_RELEASE();
  if (device.unpin(memory)) return cudaSuccess;
  return device.mistake("cudaHostUnregister: memory that is not registered", cudaErrorInvalidValue);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  FAKE_CUDA_CALL(cudaErrorInvalidValue);
  const auto kind = device.kind_of(memory);
  attributes->type = !kind                    ? cudaMemoryTypeUnregistered
                     : *kind == Kind::kDevice ? cudaMemoryTypeDevice
                                              : cudaMemoryTypeHost;
  return cudaSuccess;
}

// From memory that is not pinned the bytes are taken at once, as the real one does.
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  FAKE_CUDA_CALL(cudaErrorLaunchFailure);
  const bool from_host = kind == cudaMemcpyHostToDevice;
  const Kind target = kind == cudaMemcpyDeviceToHost ? Kind::kPinned : Kind::kDevice;
  const bool taken = from_host && !device.kind_of(from);
  const bool there = taken || device.is_inside(from, bytes, from_host ? Kind::kPinned : Kind::kDevice);
  // What begins in front of pinned memory must not end there.
  const bool whole = !taken || !device.kind_of(static_cast<const char*>(from) + bytes - 1);
  if (!there || !whole || !device.is_writable(to, bytes, target)) {
    return device.mistake("cudaMemcpyAsync: outside of what was allocated", cudaErrorInvalidValue);
  }
  if (from_host) device.note_upload(from);
  if (!taken) {
    return device.enqueue(__func__, stream, [=, &device] {
      const bool kept = device.is_inside(from, bytes, from_host ? Kind::kPinned : Kind::kDevice) &&
                        device.is_writable(to, bytes, target);
      if (kept) std::memcpy(to, from, bytes);
      if (!kept) device.mistake("cudaMemcpyAsync: of what was given back meanwhile", cudaErrorInvalidValue);
    });
  }
  if (device.is_alive(stream) && stream->capturing != nullptr) {
    return device.mistake("cudaMemcpyAsync: captured from memory that is not pinned",
                          cudaErrorStreamCaptureUnsupported);
  }
  const auto* const begin = static_cast<const char*>(from);
  return device.enqueue(__func__, stream, [to, bytes = std::vector<char>(begin, begin + bytes)] {
    std::memcpy(to, bytes.data(), bytes.size());
  });
}

cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  FAKE_CUDA_CALL(cudaErrorLaunchFailure);
  if (!device.is_inside(memory, bytes, Kind::kDevice)) {
    return device.mistake("cudaMemsetAsync: outside of what was allocated", cudaErrorInvalidValue);
  }
  return device.enqueue(__func__, stream, [=] { std::memset(memory, value, bytes); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  FAKE_CUDA_CALL(cudaErrorMemoryAllocation);
  *stream = device.make<CUstream_st>();
  (*stream)->gpu = paceline::fake_cuda::current_gpu();
  (*stream)->number = device.calls_made();
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
  if (stream->capturing != nullptr) {
    return device.mistake("cudaStreamSynchronize: of a stream that is captured",
                          cudaErrorStreamCaptureUnsupported);
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
  if (device.is_alive(stream) && stream->capturing != nullptr) {
    return device.mistake("cudaEventRecord: captured, and so seen by nobody outside of the graph",
                          cudaErrorStreamCaptureUnsupported);
  }
  return device.record(__func__, event, stream);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  FAKE_CUDA_CALL(cudaErrorLaunchFailure);
  const bool external = flags == cudaEventRecordExternal;
  if (!device.is_alive(stream) || external != (stream->capturing != nullptr)) {
    return device.mistake("cudaEventRecordWithFlags: external just where the stream is captured",
                          cudaErrorInvalidValue);
  }
  if (!external) return device.record(__func__, event, stream);
  if (device.is_spoilt()) return paceline::fake_cuda::failed(cudaErrorStreamCaptureInvalidated);
  stream->capturing->nodes.push_back({{}, event});
  return cudaSuccess;
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

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  FAKE_CUDA_CALL(cudaErrorLaunchFailure);
  const auto passed = [&device](cudaEvent_t event) {
    return device.is_alive(event) && event->recorded > 0 && event->passed == event->recorded;
  };
  if (!passed(begin) || !passed(end)) {
    return device.mistake("cudaEventElapsedTime: of an event that has not come", cudaErrorInvalidValue);
  }
  *milliseconds = device.machine.milliseconds * static_cast<float>(end->passed_as - begin->passed_as);
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  FAKE_CUDA_CALL(cudaErrorLaunchFailure);
  if (!device.is_alive(stream) || stream->capturing != nullptr) {
    return device.mistake("cudaStreamBeginCapture: not a stream, or captured already",
                          cudaErrorInvalidResourceHandle);
  }
  stream->capturing = device.make<CUgraph_st>();
  device.note_capture(+1);
  return cudaSuccess;
}

// The capture is over, whether it fails or not.
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  FAKE_CUDA_RELEASE();
  *graph = nullptr;
  if (!device.is_alive(stream) || stream->capturing == nullptr) {
    return device.mistake("cudaStreamEndCapture: nothing is captured", cudaErrorInvalidValue);
  }
  cudaGraph_t captured = std::exchange(stream->capturing, nullptr);
  device.note_capture(-1);
  const bool spoilt = device.take_spoilt();
  if (device.fails(__func__) || spoilt) {
    device.destroy(captured);
    return paceline::fake_cuda::failed(spoilt ? cudaErrorStreamCaptureInvalidated : cudaErrorLaunchFailure);
  }
  *graph = captured;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  FAKE_CUDA_CALL(cudaErrorMemoryAllocation);
  if (!device.is_alive(graph)) {
    return device.mistake("cudaGraphInstantiate: a graph that is not there", cudaErrorInvalidValue);
  }
  *exec = device.make<CUgraphExec_st>();
  (*exec)->nodes = graph->nodes;
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  FAKE_CUDA_CALL(cudaErrorLaunchFailure);
  if (!device.is_alive(exec)) {
    return device.mistake("cudaGraphLaunch: a graph that is not there", cudaErrorInvalidValue);
  }
  device.note_launch();
  for (const CUgraph_st::Node& node : exec->nodes) {
    const cudaError_t put = node.event != nullptr ? device.record(__func__, node.event, stream)
                                                  : device.enqueue(__func__, stream, node.work);
    if (put != cudaSuccess) return put;
  }
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  FAKE_CUDA_RELEASE();
  if (device.destroy(graph)) return cudaSuccess;
  return device.mistake("cudaGraphDestroy: a graph that is not there", cudaErrorInvalidValue);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  FAKE_CUDA_RELEASE();
  if (device.destroy(exec)) return cudaSuccess;
  return device.mistake("cudaGraphExecDestroy: a graph that is not there", cudaErrorInvalidValue);
}

}  // extern "C"
