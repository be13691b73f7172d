// Pause: that this process stood still for a while (SIGSTOP, a paused container, a suspended machine), known
// once it runs again. Who keeps since when something has lasted takes the pause off, since nobody else is to
// blame for it. Pure. Thread: any.
#pragma once

#include <algorithm>
#include <chrono>

#include "common/instant.h"

namespace paceline {

struct Pause {
  std::chrono::nanoseconds length{0};
  Ticks known_at;  // its end, or a little later

  // Since when something has lasted, without the pause. Not later than known_at: some of it, or all, may have
  // come after the pause, and nothing begins in the future.
  constexpr Ticks discounted(Ticks since) const {
    return std::min(since + length, std::max(since, known_at));
  }
};

}  // namespace paceline
