// PendingGradients: the gradients that wait for their clock's turn under `apply: versioned`. Those stamped c are
// decided together, in worker order, when every live worker's clock is beyond c (under backup: once there are
// N, which moves everybody's); so a version is a well-defined set.
//   version 4; worker 0 completed 4 and 5, worker 1 nothing yet   ->   [4: {0}] [5: {0}]
//   worker 1 completes 4                                          ->   take() = {0, 1}, version 5, [5: {0}]
// Memory: one entry per clock between the slowest and the fastest, at most the largest s + 1 of them.
//
// Beside them wait what is true only once they are applied: their metrics, which then count for a window of
// the LPR; and, until then, which iterations they are, since those are done again where a run is resumed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "common/clock.h"
#include "common/metric.h"
#include "common/sync/actions.h"
#include "common/sync/iteration_range.h"

namespace paceline::sync {

struct ClockContributions {
  std::vector<Contributor> contributors;
  std::vector<SkippedIteration> skipped;
  Metric metric;  // of the contributors together, as far as they were reported

  bool empty() const { return contributors.empty() && skipped.empty(); }
};

// Thread: one.
class PendingGradients {
 public:
  // Those of clocks below `first` were taken in another generation.
  explicit PendingGradients(Clock first = Clock(0)) : oldest_(first) {}

  // All three: the timestamp is that of a clock not taken yet. `iteration` is the one that was done.
  void add(const Contributor& gradient, std::int64_t iteration, const Metric& metric);
  void add(const SkippedIteration& skipped, std::int64_t iteration);
  // A worker that has done no iteration of this clock, or one that counts for nothing (backup).
  void add_late(const SkippedIteration& late) { at(late.clock).given.skipped.push_back(late); }

  // What is held of the oldest clock not taken yet, in worker order; that clock is then closed.
  ClockContributions take();

  // Which iterations are held, in any order, and how many of them have no gradient.
  IterationRanges iterations() const;
  std::int64_t skipped() const;

  // How many gradients of that clock there are by now.
  std::int64_t oldest_count() const {
    return by_clock_.empty() ? 0 : static_cast<std::int64_t>(by_clock_.front().given.contributors.size());
  }

  std::size_t clocks() const { return by_clock_.size(); }

 private:
  struct OpenClock {
    ClockContributions given;
    std::vector<std::int64_t> iterations;
  };
  OpenClock& at(Clock stamp);

  Clock oldest_;
  std::deque<OpenClock> by_clock_;
};

}  // namespace paceline::sync
