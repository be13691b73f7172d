// Memory of the host that a GPU reads and writes by itself: pinned, which CUDA calls page-locked. Buffers
// that are allocated elsewhere, on the heap or in a segment that other processes map, are pinned where they
// lie, and so is what those have written.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "common/cuda/status.h"
#include "common/status.h"

namespace paceline::cuda {

inline Result<bool> is_pinned(const void* memory) {
  cudaPointerAttributes attributes{};
  PACELINE_CUDA(cudaPointerGetAttributes(&attributes, memory));
  return attributes.type == cudaMemoryTypeHost;
}

// The GPUs of a node, at least one, for threads that do not compute: what is pinned is pinned for
// all of them, but only by who has one.
class NodeGpus {
 public:
  explicit NodeGpus(std::vector<std::uint32_t> devices) : devices_(std::move(devices)) {}
  // Gives the calling thread one, unless it has.
  void enter() const;

 private:
  std::vector<std::uint32_t> devices_;
};

// What `upstream` allocates, pinned until it is given back; null: what the heap does. Memory that cannot be
// pinned is handed out as it is, and copies from and to it take a detour. In whole pages: two that share one
// could not both be pinned. Thread: any, if `upstream` may.
std::shared_ptr<std::pmr::memory_resource> page_locked(NodeGpus gpus,
                                                       std::shared_ptr<std::pmr::memory_resource> upstream);

// What is pinned of memory that servers write, for
// GPUs that only read it; and where one pinned piece ends and the next begins, since a copy must lie in one:
// CUDA refuses those that are pinned in part, and does not say what it does with those in two pieces. Thread:
// any.
class PinnedPages : public std::enable_shared_from_this<PinnedPages> {
 public:
  explicit PinnedPages(NodeGpus gpus) : gpus_(std::move(gpus)) {}

  // Has the GPUs read `pages`, whole ones that are only read here, by themselves, for as long as what is
  // returned lives. Errors: that of the call that failed; no harm is done.
  Result<std::shared_ptr<void>> pin(std::span<const std::byte> pages);

  // What lies at the begin of `memory`, not empty, and can be copied at once.
  struct Stretch {
    std::size_t bytes;
    bool pinned;  // here; what is not may be pinned as a whole, elsewhere
  };
  Stretch first_of(std::span<const std::byte> memory) const;

  // Copies `from` to the GPU, a stretch at a time, in turn in `stream`. `pinned`: true from now on if some of
  // it was; what is not has been read after this.
  Status send(cudaStream_t stream, std::span<const float> from, float* to, bool& pinned) const;

 private:
  void unpin(std::span<const std::byte> pages);

  const NodeGpus gpus_;
  mutable std::mutex mutex_;
  std::map<const std::byte*, const std::byte*> pinned_;  // begin -> end
};

}  // namespace paceline::cuda
