// Parameter blocks: immutable while shared, reference-counted, recycled. They make a snapshot of the
// parameters cost a few pointers, and let a reply still leave over the network while the next gradient is
// applied (copy-on-write; docs/ARCHITECTURE.md, Parameters in memory).
//
//   Block       an aligned buffer of floats with an intrusive reference count
//   BlockRef    one reference to a Block
//   BlockPool   hands out Blocks and takes them back, from whichever thread drops the last reference
//   BlockRange  a contiguous range of parameters as a list of Blocks; copying it is taking a snapshot
//
// Worked example: parameters in blocks A B C. A reply holds B. Applying a gradient rewrites A and C in place,
// and B into a fresh block B'; the reply still reads the old B, and dropping it gives B back to the pool.
//
// Why in-place writing is free of races: a reader drops its reference with release, unique() reads the count
// with acquire, so all that the reader read happens before the write. And only a holder can copy a reference:
// whoever holds the only one cannot lose that while it looks.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <memory_resource>
#include <span>
#include <utility>
#include <vector>

#include "common/assert.h"
#include "common/params/partition.h"

namespace paceline {

class BlockRef;

namespace detail {
class PoolCore;

// The buffer and its count. Made, owned and taken back by the pool; everybody else holds BlockRefs.
struct Block {
  std::atomic<std::int32_t> references{0};
  float* data = nullptr;
  // Keeps the pool alive while the block is out; empty while the block lies idle in the pool.
  std::shared_ptr<PoolCore> home;
};

// Gives the block back to its pool, which may free it. Any thread.
void give_back(Block* block);
}  // namespace detail

// One counted reference to a block, or none. Copying and dropping: any thread; one BlockRef object: one
// thread.
class BlockRef {
 public:
  BlockRef() = default;
  BlockRef(const BlockRef& other) : block_(other.block_) {
    // Relaxed: `other` keeps the block alive and nothing is read through the count.
    if (block_ != nullptr) block_->references.fetch_add(1, std::memory_order_relaxed);
  }
  BlockRef(BlockRef&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  BlockRef& operator=(BlockRef other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~BlockRef() { reset(); }

  void reset() {
    detail::Block* const block = std::exchange(block_, nullptr);
    if (block == nullptr) return;
    if (block->references.fetch_sub(1, std::memory_order_acq_rel) == 1) detail::give_back(block);
  }

  explicit operator bool() const { return block_ != nullptr; }
  // True when this is the block's only reference. The holder may then write, without anybody seeing it.
  bool unique() const { return block_ != nullptr && block_->references.load(std::memory_order_acquire) == 1; }

  // The block's floats, 64-byte aligned; as many as the pool's blocks have.
  const float* data() const { return block_->data; }
  // The same, to write. Only the single holder may ask.
  float* writable_data() {
    PACELINE_ASSERT(unique(), "a shared block is immutable");
    return block_->data;
  }

 private:
  friend class BlockPool;
  explicit BlockRef(detail::Block* block) : block_(block) {}
  detail::Block* block_ = nullptr;
};

// Hands out blocks of one size and keeps at most `idle_max` returned ones for reuse (fresh memory costs more
// than the copying: every page is a fault); what exceeds that is freed. Blocks may outlive the pool object.
// Thread: any.
class BlockPool {
 public:
  // block_floats >= 1; idle_max >= 0. `memory`: where blocks come from, any thread; null: the heap.
  BlockPool(std::int64_t block_floats, std::size_t idle_max,
            std::shared_ptr<std::pmr::memory_resource> memory = nullptr);

  // A block that nobody else holds. Its content is whatever it was left with. Throws std::bad_alloc only.
  BlockRef acquire();

  std::int64_t block_floats() const;
  // Blocks handed out and not yet returned, and blocks kept for reuse: what the memory tests count.
  std::size_t in_use() const;
  std::size_t idle() const;

 private:
  std::shared_ptr<detail::PoolCore> core_;
};

// `size` parameters in blocks of pool.block_floats(), the last one perhaps partly used. A copy is a snapshot:
// it shares the blocks and never changes. Thread: one for each BlockRange, but rewrite() of different blocks
// may go on in several at once while nothing else is done with the range; snapshots may go to other threads.
class BlockRange {
 public:
  BlockRange() = default;
  // Zeros. size >= 0.
  BlockRange(BlockPool& pool, std::int64_t size);

  std::int64_t size() const { return size_; }
  std::int64_t block_count() const { return static_cast<std::int64_t>(blocks_.size()); }
  std::int64_t block_floats() const { return block_floats_; }
  // The elements that block i holds, counted from the range's begin.
  Range elements(std::int64_t i) const {
    return {i * block_floats_, std::min((i + 1) * block_floats_, size_)};
  }
  std::span<const float> block(std::int64_t i) const {
    return {ref(i).data(), static_cast<std::size_t>(elements(i).size())};
  }
  // The reference itself, to keep the block alive: for a reply in flight.
  const BlockRef& ref(std::int64_t i) const { return blocks_[static_cast<std::size_t>(i)]; }

  // Rewrites block i: calls write(std::span<const float> in, std::span<float> out), which must fill `out`
  // whole. In place (out is in) when nobody else holds the block, into a fresh one of `pool` otherwise;
  // snapshots keep the old.
  template <typename Write>
  void rewrite(std::int64_t i, BlockPool& pool, Write&& write) {
    BlockRef& old = blocks_[static_cast<std::size_t>(i)];
    const auto n = static_cast<std::size_t>(elements(i).size());
    if (old.unique()) {
      float* const data = old.writable_data();
      write(std::span<const float>(data, n), std::span<float>(data, n));
      return;
    }
    BlockRef fresh = pool.acquire();
    write(std::span<const float>(old.data(), n), std::span<float>(fresh.writable_data(), n));
    old = std::move(fresh);
  }

  // Block i, to be changed where it lies: nobody else holds it. Where somebody did its content has gone into
  // a fresh block of `pool`; snapshots keep the old. As rewrite(), of different blocks in several threads.
  std::span<float> owned(std::int64_t i, BlockPool& pool) {
    BlockRef& block = blocks_[static_cast<std::size_t>(i)];
    const auto n = static_cast<std::size_t>(elements(i).size());
    if (!block.unique()) {
      BlockRef fresh = pool.acquire();
      std::memcpy(fresh.writable_data(), block.data(), n * sizeof(float));
      block = std::move(fresh);
    }
    return {block.writable_data(), n};
  }

  // Elements [begin, begin + out.size()) to `out`, and [begin, begin + values.size()) from `values`, whatever
  // blocks they lie in. Copied into as by owned().
  void copy_to(std::int64_t begin, std::span<float> out) const;
  void copy_from(std::int64_t begin, std::span<const float> values, BlockPool& pool);

  // Puts `block`, whose first elements(i).size() floats are written, in the place of block i; snapshots keep
  // the old one. As rewrite(), of different blocks in several threads.
  void replace(std::int64_t i, BlockRef block) { blocks_[static_cast<std::size_t>(i)] = std::move(block); }

 private:
  std::int64_t size_ = 0;
  std::int64_t block_floats_ = 1;
  std::vector<BlockRef> blocks_;
};

}  // namespace paceline
