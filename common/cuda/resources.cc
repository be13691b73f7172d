#include "common/cuda/resources.h"

#include <string>

namespace paceline::cuda {
namespace {

std::string megabytes(std::size_t bytes) {
  return std::to_string((bytes + (std::size_t{1} << 20) - 1) >> 20) + " MiB";
}

Result<Event> make_event_with(unsigned flags) {
  cudaEvent_t event = nullptr;
  PACELINE_CUDA(cudaEventCreateWithFlags(&event, flags));
  return Event(event);
}

}  // namespace

Result<Stream> make_stream() {
  cudaStream_t stream = nullptr;
  PACELINE_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return Stream(stream);
}

Result<Event> make_event() { return make_event_with(cudaEventDisableTiming | cudaEventBlockingSync); }
Result<Event> make_spinning_event() { return make_event_with(cudaEventDisableTiming); }
Result<Event> make_timed_event() { return make_event_with(cudaEventBlockingSync); }

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
