// The daemons' clock: Ticks (common/instant.h) read from this machine's steady clock. Not for the pure core,
// which is told the time.
#pragma once

#include <chrono>

#include "common/instant.h"

namespace paceline {

// Now, on this machine's steady clock. Not comparable between machines.
inline Ticks steady_now() {
  return Ticks(std::chrono::duration_cast<std::chrono::nanoseconds>(
                   std::chrono::steady_clock::now().time_since_epoch())
                   .count());
}

}  // namespace paceline
