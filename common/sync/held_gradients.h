// HeldGradients: the gradients that wait for their clock's turn under `apply: versioned`. Those stamped c are
// decided together, in worker order, when every live worker's clock is beyond c (under backup: once there are
// N, which moves everybody's); so a version is a well-defined set.
//   version 4; worker 0 completed 4 and 5, worker 1 nothing yet   ->   [4: {0}] [5: {0}]
//   worker 1 completes 4                                          ->   take() = {0, 1}, version 5, [5: {0}]
// Memory: one entry per clock between the slowest and the fastest, at most the largest s + 1 of them.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "common/clock.h"
#include "common/sync/actions.h"

namespace paceline::sync {

struct ClockContributions {
  std::vector<Contributor> contributors;
  std::vector<SkippedIteration> skipped;

  bool empty() const { return contributors.empty() && skipped.empty(); }
};

// Thread: one.
class HeldGradients {
 public:
  // Both: the timestamp is that of a clock not taken yet.
  void add(const Contributor& gradient) { at(gradient.clock).contributors.push_back(gradient); }
  void add(const SkippedIteration& skipped) { at(skipped.clock).skipped.push_back(skipped); }

  // What is held of the oldest clock not taken yet, in worker order; that clock is then closed.
  ClockContributions take();

  // How many gradients of that clock there are by now.
  std::int64_t oldest_count() const {
    return by_clock_.empty() ? 0 : static_cast<std::int64_t>(by_clock_.front().contributors.size());
  }

  std::size_t clocks() const { return by_clock_.size(); }

 private:
  ClockContributions& at(Clock stamp);

  Clock oldest_;
  std::deque<ClockContributions> by_clock_;
};

}  // namespace paceline::sync
