// Background: where a server has done what may take long, writing a file of gigabytes to a slow disk above
// all, while its loop goes on hearing and beating. What is given owns, or shares, all that it works on.
#pragma once

#include <functional>
#include <utility>

#include "common/instant.h"
#include "common/status.h"

namespace paceline::server {

class Background {
 public:
  using Work = std::function<Status()>;
  using Done = std::function<void(const Status& counts, Ticks now)>;
  using Here = std::function<void(const Status& here, const Status& counts)>;

  virtual ~Background() = default;
  // Has `work` done by another thread, after all that was given before; then calls `here` and `done` with
  // what it returned, on the thread of the caller and never from within run().
  //
  // Where another process does the same (replicas/replicated_background.h) `done` is called when that has
  // said so, with what it has said, perhaps while `work` still runs here. So what `work` leaves besides its
  // Status is for `here` alone: that is called once both are known, with what the work returned here and what
  // counts; just before `done`, or later.
  virtual void run(Work work, Done done, Here here) = 0;
  void run(Work work, Done done) { run(std::move(work), std::move(done), {}); }
};

}  // namespace paceline::server
