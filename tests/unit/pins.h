// A Pin (wire/pin.h) that pins nothing, but remembers what it was asked for and when it was let go of.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "common/wire/pin.h"
#include "tests/unit/segments.h"

namespace paceline::wire {

struct Pins {
  bool fail = false;
  std::vector<std::span<const std::byte>> asked;
  std::atomic<int> held{0};
  // Of the one that was let go of last: segments that were mapped then.
  std::ptrdiff_t mapped_at_the_end = 0;

  Pin pin() {
    return [this](std::span<const std::byte> pages) -> std::shared_ptr<void> {
      asked.push_back(pages);
      if (fail) return nullptr;
      ++held;
      return {const_cast<std::byte*>(pages.data()), [this](void*) {
                mapped_at_the_end = segments_mapped();
                --held;
              }};
    };
  }
  bool cover(std::span<const std::byte> bytes) const {
    std::size_t covered = 0;
    for (const auto& pages : asked) {
      const std::byte* const begin = std::max(pages.data(), bytes.data());
      const std::byte* const end = std::min(pages.data() + pages.size(), bytes.data() + bytes.size());
      if (begin < end) covered += static_cast<std::size_t>(end - begin);
    }
    return covered == bytes.size();
  }
};

}  // namespace paceline::wire
