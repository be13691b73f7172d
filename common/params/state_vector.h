// StateVector: one float for each parameter that lives from gradient to gradient: momentum, Adam's moments, a
// mean of squares. It lies in blocks (blocks.h) that can be shared like the parameters': an image of it costs
// a few pointers, and a block that an image holds is copied before it is changed.
//
// Thread: one at a time, but elements of different blocks may be changed in several at once, and, while
// nobody holds an image, different elements of one block.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "common/params/blocks.h"

namespace paceline {

class StateVector {
 public:
  // Of nothing: size 0.
  StateVector() = default;
  // Zeros. size >= 0, block_floats >= 1.
  StateVector(std::int64_t size, std::int64_t block_floats)
      : pool_(block_floats, kIdleMax), blocks_(pool_, size) {}

  std::int64_t size() const { return blocks_.size(); }

  // Elements from `offset` on, to be changed: at most `n` >= 1 of them, and not beyond their block.
  std::span<float> from(std::int64_t offset, std::int64_t n) {
    const std::int64_t i = offset / blocks_.block_floats();
    const Range block = blocks_.elements(i);
    float* const floats = blocks_.owned(i, pool_).data();
    return {floats + (offset - block.begin), static_cast<std::size_t>(std::min(n, block.end - offset))};
  }

  // The same, to be read.
  std::span<const float> read_from(std::int64_t offset, std::int64_t n) const {
    const std::int64_t i = offset / blocks_.block_floats();
    const std::span<const float> rest =
        blocks_.block(i).subspan(static_cast<std::size_t>(offset - blocks_.elements(i).begin));
    return rest.first(std::min(static_cast<std::size_t>(n), rest.size()));
  }
  std::int64_t block_count() const { return blocks_.block_count(); }
  Range block(std::int64_t i) const { return blocks_.elements(i); }

  // Never changes. May go to another thread.
  const BlockRange& image() const { return blocks_; }
  // Becomes what `image` holds, which has as many floats, cut into as large blocks.
  void restore(BlockRange image) {
    PACELINE_ASSERT(image.size() == size() && (size() == 0 || image.block_floats() == blocks_.block_floats()),
                    std::to_string(image.size()) + " floats in blocks of " +
                        std::to_string(image.block_floats()) + ", expected " + std::to_string(size()) +
                        " in blocks of " + std::to_string(blocks_.block_floats()));
    blocks_ = std::move(image);
  }

 private:
  // A block is replaced only while an image is held: those that come back then are not kept for the next.
  static constexpr std::size_t kIdleMax = 0;
  BlockPool pool_{1, kIdleMax};
  BlockRange blocks_;
};

}  // namespace paceline
