// What a worker has said of its last few iterations, and when that left: what its messages mean where they
// arrive. Two may be under way; what is complete is asked for no more.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "common/assert.h"
#include "common/clock.h"
#include "common/instant.h"
#include "common/metric.h"
#include "simulate/pulls.h"

namespace paceline::simulate {

struct SentStep {
  Clock clock;
  Metric metric;
  std::string fault;  // what was not finite: then no gradient of it comes
  Version computed_version;
  Revision computed_revision;
  std::int64_t own_updates = 0;                  // in the parameters that it computed with, besides
  Ticks left;                                    // all of the push, or the report alone
  std::optional<std::uint32_t> pull_after = {};  // sent right after the push, which each shard takes first
  Ticket pull_ticket = 0;                        // of that: its place may be another's by now
};

// A clock, as events carry it.
inline std::uint32_t stamp_of(Clock clock) { return static_cast<std::uint32_t>(clock.value); }

// Thread: one.
class SentSteps {
 public:
  void add(SentStep step) {
    steps_.push_back(std::move(step));
    if (steps_.size() > kKept) steps_.pop_front();
  }
  SentStep& newest() { return steps_.back(); }
  // Of those kept the one with this stamp, which is there.
  const SentStep& at(std::uint32_t stamp) const {
    const auto found = std::find_if(steps_.begin(), steps_.end(),
                                    [&](const SentStep& each) { return stamp_of(each.clock) == stamp; });
    PACELINE_ASSERT(found != steps_.end(),
                    "a worker has sent nothing stamped " + std::to_string(stamp) + ", or long ago");
    return *found;
  }

 private:
  static constexpr std::size_t kKept = 3;
  std::deque<SentStep> steps_;  // the newest last
};

}  // namespace paceline::simulate
