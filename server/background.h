// Background: where a server has done what may take long, writing a file of gigabytes to a slow disk above
// all, while its loop goes on hearing and beating. What is given owns, or shares, all that it works on.
#pragma once

#include <functional>

#include "common/instant.h"
#include "common/status.h"

namespace paceline::server {

class Background {
 public:
  virtual ~Background() = default;
  // Has `work` done by another thread, behind all that was given before; then calls `done` with what it
  // returned, on the thread of the caller and never from within run().
  virtual void run(std::function<Status()> work, std::function<void(const Status&, Ticks now)> done) = 0;
};

}  // namespace paceline::server
