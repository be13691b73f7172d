#include "worker/emulate/pace.h"

#include <chrono>

namespace paceline {

void SteadyPaceClock::wait_until(Ticks due) {
  const std::chrono::steady_clock::time_point until{std::chrono::nanoseconds(due.ns)};
  std::unique_lock lock(mutex_);
  stopping_.wait_until(lock, until, [this] { return stopped_; });
}

void SteadyPaceClock::stop() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  stopping_.notify_all();
}

}  // namespace paceline
