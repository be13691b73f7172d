// RunClock: the time by which a server judges its peers. Of a replica that follows, or has, it is that of the
// one that began, as the last event says it.
//
// Thread: the server's loop.
#pragma once

#include <chrono>

#include "common/instant.h"
#include "common/ticks.h"

namespace paceline::server {

class RunClock {
 public:
  Ticks now() const { return steady_now() + shift_; }
  // From here on it is `at`, and goes on.
  void go_by(Ticks at) { shift_ = at - steady_now(); }

  // This server has begun, or begins to serve in another one's place.
  void begin() { began_at_ = now(); }
  Ticks began_at() const { return began_at_; }

 private:
  std::chrono::nanoseconds shift_{0};
  Ticks began_at_;
};

}  // namespace paceline::server
