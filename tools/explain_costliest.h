// The costliest waits of each cause: what `paceline explain` lists. Waits at the barrier that one release
// ended are one entry: when worker 3.0 moves on, all whom the threshold held for it go on at once, and ten
// lines that say so would say one thing. Pure.
//
// Worked example: 0.0 waits 3 s and 0.1 waits 2 s for 1.0, which computes clock 7; its report lets both go.
// One entry: barrier, 5 s in all, for 1.0 at clock 7. Of the other causes each wait is an entry.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

#include "tools/explain_waits.h"

namespace paceline {

struct CostlyWait {
  std::chrono::nanoseconds time{0};  // of the cause, in all waits
  Ticks begin;                       // of the earliest
  std::vector<const Wait*> waits;    // the longest of the cause first
  std::optional<Clock> whom_at;      // barrier: the clock at which `waits.front()->whom` was
};

// Of one cause, at most `most`, the costliest first. `waits` outlives the result.
std::vector<CostlyWait> costliest_of(const std::vector<Wait>& waits, WaitCause cause, std::size_t most);

}  // namespace paceline
