// Everything of CUDA's run time that must be given back, as values that give it back: streams, events,
// graphs, memory of the device and pinned memory of the host. Each is made by a function that says why there
// is none.
//
// Giving back can fail, too, where the device has failed before; there is nothing left to do about it then,
// and whoever used the device was told.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "common/cuda/status.h"
#include "common/status.h"

namespace paceline::cuda {

template <auto kDestroy>
struct Destroyer {
  template <typename T>
  void operator()(T* object) const {
    static_cast<void>(kDestroy(object));
  }
};

using Stream = std::unique_ptr<CUstream_st, Destroyer<&cudaStreamDestroy>>;
using Event = std::unique_ptr<CUevent_st, Destroyer<&cudaEventDestroy>>;
using Graph = std::unique_ptr<CUgraph_st, Destroyer<&cudaGraphDestroy>>;
using GraphExec = std::unique_ptr<CUgraphExec_st, Destroyer<&cudaGraphExecDestroy>>;

// One that the default stream, and so any other user of the device in this process, does not wait for.
Result<Stream> make_stream();
// Without a time, which would cost something. Who waits for it sleeps: the cores are the loader's, the
// transport's and the server's, too.
Result<Event> make_event();
// The same for a wait of a tenth of a millisecond, which a wake-up would make longer by a third: who waits
// for it spins.
Result<Event> make_spinning_event();
// With a time: for how long work on the device took.
Result<Event> make_timed_event();

using DeviceBytes = std::unique_ptr<void, Destroyer<&cudaFree>>;
using PinnedBytes = std::unique_ptr<void, Destroyer<&cudaFreeHost>>;
// The message of a failure says how much was asked for. 0 bytes: null.
Result<DeviceBytes> allocate_device(std::size_t bytes);
Result<PinnedBytes> allocate_pinned(std::size_t bytes);

// `size` elements, of undefined content.
template <typename T, typename Bytes>
class Memory {
 public:
  Memory() = default;
  Memory(Bytes bytes, std::int64_t size) : bytes_(std::move(bytes)), size_(size) {}
  T* data() const { return static_cast<T*>(bytes_.get()); }
  std::int64_t size() const { return size_; }
  std::span<T> all() const { return {data(), static_cast<std::size_t>(size_)}; }

 private:
  Bytes bytes_;
  std::int64_t size_ = 0;
};
template <typename T>
using DeviceMemory = Memory<T, DeviceBytes>;
template <typename T>
using PinnedMemory = Memory<T, PinnedBytes>;

template <typename T>
Result<DeviceMemory<T>> make_device_memory(std::int64_t size) {
  PACELINE_ASSIGN_OR_RETURN(auto bytes, allocate_device(static_cast<std::size_t>(size) * sizeof(T)));
  return DeviceMemory<T>(std::move(bytes), size);
}
template <typename T>
Result<PinnedMemory<T>> make_pinned_memory(std::int64_t size) {
  PACELINE_ASSIGN_OR_RETURN(auto bytes, allocate_pinned(static_cast<std::size_t>(size) * sizeof(T)));
  return PinnedMemory<T>(std::move(bytes), size);
}

// A vector on the device with its pinned image on the host, which copies to and from the device go through:
// only from pinned memory does a copy run beside other work.
template <typename T>
struct Staged {
  PinnedMemory<T> host;
  DeviceMemory<T> device;

  static Result<Staged> make(std::int64_t size) {
    Staged staged;
    PACELINE_ASSIGN_OR_RETURN(staged.host, make_pinned_memory<T>(size));
    PACELINE_ASSIGN_OR_RETURN(staged.device, make_device_memory<T>(size));
    return staged;
  }
  // Elements [offset, offset + size), in turn in `stream`.
  Status send(cudaStream_t stream, std::int64_t offset, std::int64_t size) const {
    PACELINE_CUDA(cudaMemcpyAsync(device.data() + offset, host.data() + offset, bytes(size),
                                  cudaMemcpyHostToDevice, stream));
    return Status::ok();
  }
  Status fetch(cudaStream_t stream, std::int64_t offset, std::int64_t size) const {
    PACELINE_CUDA(cudaMemcpyAsync(host.data() + offset, device.data() + offset, bytes(size),
                                  cudaMemcpyDeviceToHost, stream));
    return Status::ok();
  }

 private:
  static std::size_t bytes(std::int64_t size) { return static_cast<std::size_t>(size) * sizeof(T); }
};

}  // namespace paceline::cuda
