// DeferredGrants: who waits, or runs and may be granted the next iteration ahead (exchange.hidden), filed under what
// releases them. A worker at clock c under threshold s may go on once
// the floor reaches c - s (docs/SYNC.md, The one rule), so it is filed under that clock:
//   s = 3, floor 3, a worker at 7           filed under 4
//   the slowest completes clock 3, floor 4  bucket 4 is emptied
// Releasing costs only what is released; nobody else is looked at. A bucket is a plain array that is put into
// order when it is released: a tree that is always in order would be a walk through memory for each worker
// that is held (docs/PERFORMANCE.md, a step decision). There are as many buckets as distinct lacking clocks:
// one under a fixed threshold (where grants go ahead one for each clock that somebody is at), at most
// threshold_max - threshold_min + 1 where thresholds lie between these
// two: DTSSP, the random walk, DSSP (those of different workers at one time).
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"

namespace paceline::sync {

// Thread: one.
class DeferredGrants {
 public:
  // `worker` waits until the floor is `needed` or more. It must not be filed already.
  void add(Rank worker, Clock needed);
  // Takes `worker`, filed under `needed`, out: it left, or it is told to finish.
  void remove(Rank worker, Clock needed);
  // Takes out everybody whom `floor` releases: by needed clock, and within one clock in worker order.
  std::vector<Rank> take_released(Clock floor);
  // Takes out everybody, in worker order: the threshold changed and each must be filed anew, or the run
  // stops.
  std::vector<Rank> take_all();

  std::size_t size() const { return size_; }

 private:
  std::map<Clock, std::vector<Rank>> by_needed_;
  std::vector<std::size_t> places_;  // by rank: where in its bucket, while it is held
  std::size_t size_ = 0;
};

}  // namespace paceline::sync
