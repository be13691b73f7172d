#include "common/cuda/page_locked.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>

namespace paceline::cuda {
namespace {

std::size_t page() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}
std::size_t whole_pages(std::size_t bytes) { return (bytes + page() - 1) / page() * page(); }

// For all GPUs.
Status pin_pages(void* memory, std::size_t bytes, unsigned flags) {
  return status_of(cudaHostRegister(memory, bytes, cudaHostRegisterPortable | flags), "cudaHostRegister");
}
void unpin_pages(void* memory) {
  if (cudaHostUnregister(memory) != cudaSuccess) forget_last_error();
}

class PageLocked final : public std::pmr::memory_resource {
 public:
  PageLocked(NodeGpus gpus, std::shared_ptr<std::pmr::memory_resource> upstream)
      : gpus_(std::move(gpus)), upstream_(std::move(upstream)) {}

 private:
  struct Block {
    void* allocated;  // upstream's, which need not begin with a page
    bool pinned;
  };

  std::pmr::memory_resource& upstream() const {
    return upstream_ != nullptr ? *upstream_ : *std::pmr::new_delete_resource();
  }
  static std::size_t needed(std::size_t bytes) { return whole_pages(bytes) + page(); }

  void* do_allocate(std::size_t bytes, std::size_t) override {
    void* const allocated = upstream().allocate(needed(bytes), alignof(std::max_align_t));
    void* const memory = reinterpret_cast<void*>(whole_pages(reinterpret_cast<std::size_t>(allocated)));
    gpus_.enter();
    const bool pinned = pin_pages(memory, whole_pages(bytes), cudaHostRegisterDefault).is_ok();
    const std::lock_guard lock(mutex_);
    blocks_[memory] = {allocated, pinned};
    return memory;
  }

  void do_deallocate(void* memory, std::size_t bytes, std::size_t) override {
    std::unique_lock lock(mutex_);
    const Block block = blocks_.extract(memory).mapped();
    lock.unlock();
    if (block.pinned) {
      gpus_.enter();
      unpin_pages(memory);
    }
    upstream().deallocate(block.allocated, needed(bytes), alignof(std::max_align_t));
  }

  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  const NodeGpus gpus_;
  const std::shared_ptr<std::pmr::memory_resource> upstream_;
  std::mutex mutex_;
  std::map<void*, Block> blocks_;
};

}  // namespace

std::shared_ptr<std::pmr::memory_resource> page_locked(NodeGpus gpus,
                                                       std::shared_ptr<std::pmr::memory_resource> upstream) {
  return std::make_shared<PageLocked>(std::move(gpus), std::move(upstream));
}

// A thread that computes has its GPU, which must stay the current one: kernels are launched there next. Any
// other would get the first of the machine from CUDA, which takes memory there, and may not be this node's.
void NodeGpus::enter() const {
  int current = -1;
  static_cast<void>(cudaGetDevice(&current));
  const bool ours = std::ranges::any_of(
      devices_, [current](std::uint32_t device) { return static_cast<int>(device) == current; });
  if (!ours) static_cast<void>(cudaSetDevice(static_cast<int>(devices_.front())));
  forget_last_error();  // pinning fails, too, then
}

// Read-only, as they are mapped: else CUDA refuses them.
Result<std::shared_ptr<void>> PinnedPages::pin(std::span<const std::byte> pages) {
  gpus_.enter();
  void* const memory = const_cast<std::byte*>(pages.data());
  PACELINE_RETURN_IF_ERROR(pin_pages(memory, pages.size(), cudaHostRegisterReadOnly));
  {
    const std::lock_guard lock(mutex_);
    pinned_[pages.data()] = pages.data() + pages.size();
  }
  return std::shared_ptr<void>(memory, [self = shared_from_this(), pages](void*) { self->unpin(pages); });
}

void PinnedPages::unpin(std::span<const std::byte> pages) {
  {
    const std::lock_guard lock(mutex_);
    pinned_.erase(pages.data());
  }
  gpus_.enter();
  unpin_pages(const_cast<std::byte*>(pages.data()));
}

PinnedPages::Stretch PinnedPages::first_of(std::span<const std::byte> memory) const {
  const auto up_to = [&](const std::byte* end) {
    return std::min(memory.size(), static_cast<std::size_t>(end - memory.data()));
  };
  const std::lock_guard lock(mutex_);
  const auto after = pinned_.upper_bound(memory.data());
  if (after != pinned_.begin() && memory.data() < std::prev(after)->second) {
    return {up_to(std::prev(after)->second), true};
  }
  return {after == pinned_.end() ? memory.size() : up_to(after->first), false};
}

Status PinnedPages::send(cudaStream_t stream, std::span<const float> from, float* to, bool& pinned) const {
  while (!from.empty()) {
    const Stretch stretch = first_of(std::as_bytes(from));
    pinned = pinned || stretch.pinned;
    PACELINE_CUDA(cudaMemcpyAsync(to, from.data(), stretch.bytes, cudaMemcpyHostToDevice, stream));
    const std::size_t floats = stretch.bytes / sizeof(float);  // pages end between floats
    from = from.subspan(floats);
    to += floats;
  }
  return Status::ok();
}

}  // namespace paceline::cuda
