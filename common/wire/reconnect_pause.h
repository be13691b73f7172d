// How long one waits before a connection is tried again, by whoever goes on over another one: not at all
// before the first, then 50 ms, doubling to a second.
#pragma once

#include <algorithm>
#include <chrono>

namespace paceline::wire {

// Where a server has replicas: how long one of them may take to serve in the place of another, and how long a
// peer waits for an answer before it asks the other.
inline constexpr int kLeasesToTakeOver = 3;
inline constexpr std::chrono::seconds kAnswersWithin{1};

inline std::chrono::milliseconds reconnect_pause(int attempt) {
  using std::chrono::milliseconds;
  if (attempt == 0) return milliseconds(0);
  return std::min(milliseconds(50) * (1 << std::min(attempt - 1, 10)), milliseconds(1000));
}

}  // namespace paceline::wire
