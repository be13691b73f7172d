// A bucket of an all-reduce on a node: a row of a trace (common/trace). Of those that are under way together each is
// from when the one before it was done, so that none overlaps another.
#pragma once

#include <chrono>
#include <cstdint>

#include "common/clock.h"
#include "common/instant.h"

namespace paceline {

struct BucketSpan {
  Ticks begin;                         // or the one before it was done
  std::chrono::nanoseconds length{0};  // the wait for others included
  Clock clock;                         // of the step
  std::int64_t bucket = 0;             // counted from the model's end
  std::int64_t bytes = 0;              // that this node sent
  bool copies = false;                 // exchange.shard_optimizer: parameters, instead of sums
  std::chrono::nanoseconds ahead{0};   // by so much earlier it was begun, with others
  Ticks began() const { return begin + -ahead; }
  bool operator==(const BucketSpan&) const = default;
};

}  // namespace paceline
