// Which of a worker's gradients a shard's state contains, now and some revisions ago: "stamped below this
// clock". Under versioned application that is the state's version, for everybody. Under eager each worker has
// its own. For a state that has been overwritten it follows from when the worker's last gradients were
// applied. As many of these are remembered as a node may lack (server/store/reply_window.h); for an older state
// the answer is the oldest clock known.
//
//   eager, worker 1.0: stamps 3, 4, 5 applied as revisions 20, 31, 44
//     at revision 50: 6     at 40: 5 (5 is not in it)     at 25: 4
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "common/sync/modes.h"

namespace paceline::simulate {

class AppliedClocks {
 public:
  AppliedClocks(ApplyMode mode, std::uint32_t workers, std::int64_t remembered)
      : mode_(mode), remembered_(static_cast<std::size_t>(std::clamp<std::int64_t>(remembered, 1, 64))) {
    if (mode_ == ApplyMode::kVersioned) return;
    newest_.resize(workers);
    revisions_.resize(workers * remembered_, -1);
  }

  // The gradient of `worker` stamped `clock` is applied, as the last of `revision`. Eager.
  void note(Rank worker, Clock clock, Revision revision) {
    if (mode_ == ApplyMode::kVersioned) return;
    newest_[worker.value] = clock.next();
    revisions_[worker.value * remembered_ + place(clock.value)] = revision.value;
  }

  // In the state of this version and revision, which is the newest or an older one.
  Clock at(Rank worker, Version version, Revision revision) const {
    if (mode_ == ApplyMode::kVersioned) return Clock(version.value);
    std::int64_t clock = newest_[worker.value].value;
    for (std::size_t back = 0; back < remembered_ && clock > 0; ++back, --clock) {
      if (revisions_[worker.value * remembered_ + place(clock - 1)] <= revision.value) break;
    }
    return Clock(clock);
  }

 private:
  std::size_t place(std::int64_t clock) const { return static_cast<std::size_t>(clock) % remembered_; }

  ApplyMode mode_;
  std::size_t remembered_;
  std::vector<Clock> newest_;            // by rank
  std::vector<std::int64_t> revisions_;  // by rank, the last ones: when they were applied
};

}  // namespace paceline::simulate
