#include "worker/client/grant_watch.h"

#include <algorithm>
#include <cstdio>
#include <string>

namespace paceline {

GrantWatch::GrantWatch(NodeId node, std::uint32_t threads, std::chrono::nanoseconds lease)
    : node_(node),
      allowed_(std::max<std::chrono::nanoseconds>(kLeases * lease, kAtLeast)),
      threads_(threads) {}

void GrantWatch::reported(std::uint32_t thread, Clock clock, Ticks now) {
  Waiting& waiting = at(thread);
  waiting.since = now;
  waiting.reported = clock;
}

void GrantWatch::held(std::uint32_t thread, Ticks now) {
  Waiting& waiting = at(thread);
  if (!waiting.since) return;
  waiting.since = now;
}

void GrantWatch::forgive(std::chrono::nanoseconds pause) {
  for (Waiting& waiting : threads_) {
    if (waiting.since) waiting.since = *waiting.since + pause;
  }
}

Status GrantWatch::check(Ticks now) {
  for (std::uint32_t thread = 0; thread < threads_.size(); ++thread) {
    Waiting& waiting = threads_[thread];
    if (!waiting.since) continue;
    if (!waiting.push.expired()) waiting.since = now;
    if (now - *waiting.since <= allowed_) continue;
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%.1f s", to_seconds(now - *waiting.since));
    const std::string worker = "worker " + to_string(WorkerId(node_, thread));
    return deadline_exceeded(worker + " reported its iteration of clock " + to_string(waiting.reported) +
                             " and for " + seconds +
                             " got neither a grant, nor that it is held, nor that it is finished");
  }
  return Status::ok();
}

}  // namespace paceline
