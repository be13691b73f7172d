// Spin: for how long a rank that waits for another one of its machine looks at their memory before it sleeps.
//
// A short while always. Then for as long as a sleep and the waking from it cost, so that at most twice of that is lost,
// whatever comes (Karlin et al. 1991, "Empirical studies of competitive spinning for a shared-memory multiprocessor",
// §2); but only while every thread of the machine has a processor: who looks otherwise takes it from one that computes,
// often the very one that is waited for.
//
// Of 256 KiB among two each adds one half within 15 us and copies the other. Once one of them slept, the other would
// come to sleep for its waking, and so on: 117 us a sum, 33 without.
//
// Thread: one.
#pragma once

#include <chrono>
#include <utility>

#include "common/process/machine.h"
#include "common/process/running_threads.h"
#include "common/ticks.h"

namespace paceline::mesh {

class Spin {
 public:
  static constexpr int kPolls = 200;  // of less than 0.1 us each
  // Of a process of a virtual machine; of a bare one some 10.
  static constexpr std::chrono::microseconds kSleepAndWaking{50};

  Spin() : Spin(RunningThreads(usable_cores()), steady_now) {}
  Spin(RunningThreads running, Ticks (*now)()) : running_(std::move(running)), now_(now) {}

  // Something has moved.
  void end() { polls_ = 0; }
  // Nothing has: whether to look again, instead of a sleep.
  bool goes_on() {
    if (++polls_ < kPolls) return true;
    if (polls_ == kPolls) {
      may_last_ = running_.all_have_a_processor();
      until_ = now_() + kSleepAndWaking;
    }
    return may_last_ && now_() < until_;
  }

 private:
  const RunningThreads running_;
  Ticks (*const now_)();
  int polls_ = 0;
  bool may_last_ = false;
  Ticks until_;
};

}  // namespace paceline::mesh
