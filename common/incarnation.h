// Tells a process from the one before it that did the same job: drawn anew by each that joins a run.
#pragma once

#include <cstdint>
#include <random>

namespace paceline {

// Not 0, which is nobody's.
inline std::uint64_t new_incarnation() {
  std::random_device entropy;
  std::uint64_t drawn = 0;
  while (drawn == 0) drawn = (std::uint64_t{entropy()} << 32) | entropy();
  return drawn;
}

}  // namespace paceline
