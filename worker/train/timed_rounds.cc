#include "worker/train/timed_rounds.h"

#include <algorithm>

#include "common/printed.h"
#include "common/step/grant.h"

namespace paceline {
namespace {

std::string in_milliseconds(std::chrono::nanoseconds length) {
  return printed("%.3gms", std::chrono::duration<double, std::milli>(length).count());
}

}  // namespace

bool TimedRounds::step_took(std::chrono::nanoseconds taken, std::chrono::nanoseconds last) {
  const std::lock_guard lock(mutex_);
  shortest_ = std::min(shortest_, last);
  if (++measured_ == checked_at_ && shortest_ > time_) {
    log_.warn(source_ + ": train.local_time: shorter than a mini-batch, got " + in_milliseconds(time_) +
              ", expected " + in_milliseconds(shortest_) + " or more: each round has one");
  }
  return step::time_is_up(time_, taken, last);
}

}  // namespace paceline
