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
  if (waiting.granted && *waiting.granted > clock) return;
  waiting.since = waiting.reported_at = now;
  waiting.reported = clock;
  waiting.held.reset();
}

void GrantWatch::held(const wire::HeldNotice& held, Ticks now) {
  Waiting& waiting = at(held.worker.thread);
  if (!waiting.since) return;
  waiting.since = now;
  waiting.held = held;
}

void GrantWatch::instructed(std::uint32_t thread, std::optional<Clock> granted, Ticks now) {
  Waiting& waiting = at(thread);
  waiting.granted = granted;
  if (waiting.since) waiting.usual.took(now - waiting.reported_at);
  waiting.since.reset();
  waiting.begun = true;
}

void GrantWatch::discount_pause(const Pause& pause) {
  for (Waiting& waiting : threads_) {
    if (waiting.since) waiting.since = pause.discounted(*waiting.since);
    waiting.reported_at = pause.discounted(waiting.reported_at);
  }
}

std::chrono::nanoseconds GrantWatch::usual() const {
  std::chrono::nanoseconds longest{0};
  for (const Waiting& waiting : threads_) longest = std::max(longest, waiting.usual.usual());
  return longest;
}

// Of those who wait for the same reason one is described, the others are counted.
std::vector<Wait> GrantWatch::waits(const std::string& authority) const {
  const auto has_begun = [](const Waiting& waiting) { return waiting.begun || waiting.since; };
  if (std::none_of(threads_.begin(), threads_.end(), has_begun)) {
    return {{"the wait for the start",
             "training has not begun: " + authority + " waits for others, and says for whom",
             std::chrono::nanoseconds(0), /*at_start=*/true}};
  }
  std::vector<Wait> found;
  std::vector<int> others;
  for (std::uint32_t thread = 0; thread < threads_.size(); ++thread) {
    const Waiting& waiting = threads_[thread];
    if (!waiting.since) continue;
    const std::string clock = to_string(waiting.reported.next());
    std::string cause = "the wait for grants, ";
    std::string why;
    if (waiting.held) {
      const std::string slowest = "worker " + to_string(waiting.held->waits_for);
      cause += "held for " + slowest;
      why = "it is held, " + to_string(waiting.held->lead) + " ahead of " + slowest + ", threshold " +
            to_string(waiting.held->threshold);
    } else if (!waiting.push.expired()) {
      cause += "after a push that is leaving";
      why = "its push of clock " + to_string(waiting.reported) + " is still leaving";
    } else {
      cause += "about which nothing has come";
      why = authority + " has sent nothing since the report of clock " + to_string(waiting.reported);
    }
    const auto same =
        std::find_if(found.begin(), found.end(), [&](const Wait& w) { return w.cause == cause; });
    if (same != found.end()) {
      ++others[static_cast<std::size_t>(same - found.begin())];
      continue;
    }
    const std::string worker = "worker " + to_string(WorkerId(node_, thread));
    found.push_back(
        {std::move(cause), worker + " waits for its grant of clock " + clock + ": " + why, usual()});
    others.push_back(0);
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (others[i] > 0) found[i].text += "; so do " + std::to_string(others[i]) + " more of this node";
  }
  return found;
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
