// StallLog: when a wait is worth a line in the log. A run waits all the time, for the slowest worker above
// all; what takes long compared with what is usual has a reason that somebody wants to read. So a wait is
// told once it has lasted several times as long as such a wait usually does, again each time that it has
// lasted twice as long, and once more when it is over:
//
//   usual 2 s: told after 10 s, 20 s, 40 s, …      for 10.3 s: 15 workers wait for version 118: worker 3.0 …
//                                                  over after 34.2 s: the wait for version 118, …
//
// What is waited for, and why it does not come, others know (server/authority/run_waits.cc,
// server/service/shard_waits.cc, worker/client). Pure: time is passed in. Thread: one.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "common/instant.h"
#include "common/pause.h"

namespace paceline {

// Something that does not come, as it is now: one for each cause, however many wait.
struct Wait {
  std::string cause;                  // the same while the same is waited for, and for nothing else
  std::string text;                   // who waits for what, and what is known about it now
  std::chrono::nanoseconds usual{0};  // how long this usually takes; 0: that is not known
  bool at_start = false;              // somebody has just begun it and looks on: told soon, and then seldom
};

// How long something usually takes: the mean of what it took, the last times counting most. A time beyond
// four times the mean counts as that much: one stall of an hour must not hide the next, and what takes longer
// from now on is the usual all the same after a few times. A negative time counts as none.
class DurationBaseline {
 public:
  void took(std::chrono::nanoseconds time) {
    time = std::max(time, std::chrono::nanoseconds::zero());
    if (mean_.count() != 0) time = mean_ + (std::min(time, kTimesMeanMax * mean_) - mean_) / kRemembered;
    mean_ = time;
  }
  std::chrono::nanoseconds usual() const { return mean_; }

 private:
  static constexpr int kRemembered = 8;
  static constexpr int kTimesMeanMax = 4;
  std::chrono::nanoseconds mean_{0};
};

class StallLog {
 public:
  // A wait is told first after so many times what is usual, but not before kAtLeast; or after kUnknown.
  static constexpr int kTimesUsual = 5;
  static constexpr std::chrono::seconds kAtLeast{3};
  static constexpr std::chrono::seconds kUnknown{10};
  // Of one at the start: first after this, and again each time that it has lasted so many times as long.
  static constexpr std::chrono::seconds kAtStart{2};
  static constexpr int kTimesAtStart = 5;

  // All that is waited for now. What is to be written; to be called every second or so, since a wait counts
  // from the first call that sees it.
  std::vector<std::string> check(const std::vector<Wait>& waits, Ticks now);

  // What to write for somebody who asks now, however short the waits are: one line each.
  std::vector<std::string> explain(const std::vector<Wait>& waits, Ticks now) const;

  // Of those that were told and are not over, the line of the one that has lasted longest, as the last look()
  // saw it; empty where there is none.
  const std::string& standing() const { return standing_; }

  // This process did not run for that long: nobody waited meanwhile.
  void discount_pause(const Pause& pause);

 private:
  struct Seen {
    std::string cause;
    Ticks since;
    std::chrono::nanoseconds report_after{0};  // the next time
    bool logged = false;
  };
  const Seen* find(const std::string& cause) const;

  std::vector<Seen> seen_;  // in the order in which they began
  std::string standing_;
};

}  // namespace paceline
