// What a training thread's phases add up to so far: sums alone, for whoever looks on while it trains. The
// counts and distributions of phases.csv (phase_totals.h) come when it is done.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "common/timing/phases.h"

namespace paceline {

// Times of one worker, in ns. `wall` runs from its first grant to the end of its last whole phase; what of it
// is in no phase is unaccounted.
struct PhaseTimes {
  std::array<std::int64_t, kPhaseCount> phases{};
  std::int64_t wall = 0;

  std::int64_t& operator[](Phase p) { return phases[static_cast<std::size_t>(p)]; }
  std::int64_t operator[](Phase p) const { return phases[static_cast<std::size_t>(p)]; }
  bool operator==(const PhaseTimes&) const = default;
};

// The times of one training thread where another may see them. Thread: show() its own, times() any. Who looks
// while they are shown may see some of them from before and some from after.
class ShownTimes {
 public:
  // `before`: what this worker had already done, which counts, too.
  void begin(const PhaseTimes& before) {
    before_ = before;
    show({});
  }
  void show(const PhaseTimes& times) {
    for (std::size_t i = 0; i < kPhaseCount; ++i) {
      phases_[i].store(before_.phases[i] + times.phases[i], std::memory_order_relaxed);
    }
    wall_.store(before_.wall + times.wall, std::memory_order_relaxed);
  }
  PhaseTimes times() const {
    PhaseTimes times;
    for (std::size_t i = 0; i < kPhaseCount; ++i)
      times.phases[i] = phases_[i].load(std::memory_order_relaxed);
    times.wall = wall_.load(std::memory_order_relaxed);
    return times;
  }

 private:
  PhaseTimes before_;
  std::array<std::atomic<std::int64_t>, kPhaseCount> phases_{};
  std::atomic<std::int64_t> wall_{0};
};

}  // namespace paceline
