// ClockTable: the clocks of the live workers, and the smallest of them. DTSSP paper, section 3: the server
// compares a worker's clock with the slowest worker's before it lets the worker go on.
//
// Instead of searching the workers, it counts how many stand at each clock:
//   workers at 4, 4, 5, 7                        base 4, counts [2, 1, 0, 1]
//   one at 4 completes an iteration              base 4, counts [1, 2, 0, 1]
//   the other at 4 as well: [0, 3, 0, 1], so     base 5, counts [3, 0, 1]
// The base only moves forward and each entry is dropped once, so a step costs O(1) amortised however many
// workers there are; the memory is the largest difference of clocks, not the number of workers or of steps.
//
// Who departs ahead of the base leaves gradients behind that are still to be counted: one at each clock that
// it completed, as many at most as it took steps, so that too is O(1) amortised. Who joins ahead of the base
// is, for the clocks between, as if it had departed one time less than it is live.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "common/clock.h"

namespace paceline::sync {

// Knows clocks, not who has them: the Engine does. Thread: one.
class ClockTable {
 public:
  // Training begins at clock `begin`: 0, or the version with which a run is resumed.
  explicit ClockTable(Clock begin = Clock(0)) : base_(begin.value) {}

  // A live worker more, at `at`: not below the min clock where anybody is live, else where training begins.
  // Of the clocks between the min clock and `at` it closes none but those that it completed before it
  // departed the last time.
  void add(Clock at);
  // A live worker that stood at `from` now stands at the next clock.
  void advance(Clock from);
  // A worker that stood at `at` is no longer live: nobody waits for it any more.
  void remove(Clock at);

  std::int64_t live() const { return live_; }
  bool empty() const { return live_ == 0; }
  // The smallest and the largest clock of the live workers; there must be one.
  Clock min_clock() const;
  Clock max_clock() const;
  // Between these two.
  Staleness gap() const { return max_clock() - min_clock(); }
  // How many gradients stamped `stamp` there will be unless somebody goes, or comes at or below it: the live
  // workers, and those that completed it before they departed. `stamp` is not below the min clock.
  std::int64_t contributors(Clock stamp) const;
  // How many clocks are spanned; for the test that memory is bounded.
  std::size_t span() const { return counts_.size(); }

 private:
  std::int64_t& count_at(Clock clock);
  void trim();

  std::int64_t base_;                // the clock that counts_[0] stands for
  std::deque<std::int64_t> counts_;  // live workers per clock; neither end is 0 unless empty
  std::int64_t live_ = 0;
  // [i]: how many departed that had completed clock base_ + i, less those live that have joined after it.
  std::deque<std::int64_t> departed_;
};

}  // namespace paceline::sync
