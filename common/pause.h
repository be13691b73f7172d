// Pause: that this process stood still for a while (SIGSTOP, a paused container, a suspended machine), known
// once it runs again. Who keeps since when something has lasted takes the pause off, since nobody else is to
// blame for it. Pure. Thread: any.
#pragma once

#include <chrono>

#include "common/instant.h"

namespace paceline {

struct Pause {
  std::chrono::nanoseconds length{0};
  Ticks known_at;  // its end, or a little later: what happened in between was not held up by it

  // What has lasted since `since`, without the pause; never later than known_at.
  constexpr Ticks forgiven(Ticks since) const {
    const Ticks later = since + length;
    return later <= known_at ? later : since;
  }
};

}  // namespace paceline
