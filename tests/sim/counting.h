// The counting model: instead of numbers a slice holds, for each gradient, how often it is in. So the
// guarantees of docs/SYNC.md, What a worker sees, can be read off what a worker computes with: missing is 0,
// right is 1, applied twice is 2.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"

namespace paceline::test {

// A gradient is as many floats for each shard, and a frame is one, so it leaves in halves.
inline constexpr std::int64_t kFloatsOfAShard = 2;

using Violations = std::vector<std::string>;

class Counts {
 public:
  Counts() = default;
  Counts(std::uint32_t workers, std::int64_t clocks)
      : clocks_(clocks), counts_(workers * static_cast<std::size_t>(clocks), 0) {}

  std::uint8_t& of(Rank worker, Clock stamp) { return counts_[place(worker, stamp)]; }
  std::uint8_t of(Rank worker, Clock stamp) const { return counts_[place(worker, stamp)]; }
  std::int64_t clocks() const { return clocks_; }
  bool operator==(const Counts&) const = default;

 private:
  std::size_t place(Rank worker, Clock stamp) const {
    return worker.value * static_cast<std::size_t>(clocks_) + static_cast<std::size_t>(stamp.value);
  }
  std::int64_t clocks_ = 0;
  std::vector<std::uint8_t> counts_;
};

// What became of a gradient, as the simulation itself (not the engine) knows it.
enum class Fate : std::uint8_t { kNone, kPushed, kCorrupt, kDiscarded };

}  // namespace paceline::test
