// The pool behind the blocks: a bounded list of idle ones under one lock, touched once for each block handed
// out or given back, never while parameters are read or written.
#include "common/params/blocks.h"

#include <cstring>
#include <mutex>
#include <new>
#include <string>

namespace paceline {
namespace {

constexpr std::size_t kBlockAlignment = 64;  // a cache line, and the widest vector register

}  // namespace

namespace detail {

class PoolCore {
 public:
  PoolCore(std::int64_t block_floats, std::size_t idle_max, std::shared_ptr<std::pmr::memory_resource> memory)
      : block_floats_(block_floats), idle_max_(idle_max), memory_(std::move(memory)) {
    PACELINE_ASSERT(block_floats >= 1, "blocks of " + std::to_string(block_floats) + " floats");
    idle_.reserve(idle_max);
  }
  ~PoolCore() {
    for (Block* block : idle_) destroy(block);
  }

  Block* take() {
    {
      const std::lock_guard lock(mutex_);
      ++in_use_;
      if (!idle_.empty()) {
        Block* const block = idle_.back();
        idle_.pop_back();
        return block;
      }
    }
    return create();
  }

  void put(Block* block) {
    {
      const std::lock_guard lock(mutex_);
      --in_use_;
      if (idle_.size() < idle_max_) {
        idle_.push_back(block);
        return;
      }
    }
    destroy(block);
  }

  std::int64_t block_floats() const { return block_floats_; }
  std::size_t in_use() const {
    const std::lock_guard lock(mutex_);
    return in_use_;
  }
  std::size_t idle() const {
    const std::lock_guard lock(mutex_);
    return idle_.size();
  }

 private:
  Block* create() const {
    auto block = std::make_unique<Block>();
    block->data = static_cast<float*>(source().allocate(block_bytes(), kBlockAlignment));
    return block.release();
  }
  void destroy(Block* block) const {
    source().deallocate(block->data, block_bytes(), kBlockAlignment);
    delete block;
  }
  std::size_t block_bytes() const { return static_cast<std::size_t>(block_floats_) * sizeof(float); }
  std::pmr::memory_resource& source() const {
    return memory_ != nullptr ? *memory_ : *std::pmr::new_delete_resource();
  }

  const std::int64_t block_floats_;
  const std::size_t idle_max_;
  const std::shared_ptr<std::pmr::memory_resource> memory_;
  mutable std::mutex mutex_;
  std::vector<Block*> idle_;
  std::size_t in_use_ = 0;
};

void give_back(Block* block) {
  // Taken out first: an idle block must not keep its own pool alive, and the pool may die with this
  // reference.
  const std::shared_ptr<PoolCore> home = std::move(block->home);
  home->put(block);
}

}  // namespace detail

BlockPool::BlockPool(std::int64_t block_floats, std::size_t idle_max,
                     std::shared_ptr<std::pmr::memory_resource> memory)
    : core_(std::make_shared<detail::PoolCore>(block_floats, idle_max, std::move(memory))) {}

BlockRef BlockPool::acquire() {
  detail::Block* const block = core_->take();
  block->home = core_;
  block->references.store(1, std::memory_order_relaxed);
  return BlockRef(block);
}

std::int64_t BlockPool::block_floats() const { return core_->block_floats(); }
std::size_t BlockPool::in_use() const { return core_->in_use(); }
std::size_t BlockPool::idle() const { return core_->idle(); }

BlockRange::BlockRange(BlockPool& pool, std::int64_t size) : size_(size), block_floats_(pool.block_floats()) {
  PACELINE_ASSERT(size >= 0, "size " + std::to_string(size));
  const std::int64_t count = (size + block_floats_ - 1) / block_floats_;
  blocks_.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    BlockRef block = pool.acquire();
    std::memset(block.writable_data(), 0, static_cast<std::size_t>(block_floats_) * sizeof(float));
    blocks_.push_back(std::move(block));
  }
}

void BlockRange::copy_to(std::int64_t begin, std::span<float> out) const {
  while (!out.empty()) {
    const std::int64_t i = begin / block_floats_;
    const std::span<const float> rest = block(i).subspan(static_cast<std::size_t>(begin - elements(i).begin));
    const std::size_t n = std::min(rest.size(), out.size());
    std::copy_n(rest.begin(), n, out.begin());
    out = out.subspan(n);
    begin += static_cast<std::int64_t>(n);
  }
}

void BlockRange::copy_from(std::int64_t begin, std::span<const float> values, BlockPool& pool) {
  while (!values.empty()) {
    const std::int64_t i = begin / block_floats_;
    const std::span<float> rest = owned(i, pool).subspan(static_cast<std::size_t>(begin - elements(i).begin));
    const std::size_t n = std::min(rest.size(), values.size());
    std::copy_n(values.begin(), n, rest.begin());
    values = values.subspan(n);
    begin += static_cast<std::int64_t>(n);
  }
}

}  // namespace paceline
