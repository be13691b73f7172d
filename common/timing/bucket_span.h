// A bucket of an all-reduce, as long as it was under way on a node: a row of a trace (common/trace).
#pragma once

#include <chrono>
#include <cstdint>

#include "common/clock.h"
#include "common/instant.h"

namespace paceline {

struct BucketSpan {
  Ticks begin;
  std::chrono::nanoseconds length{0};  // the wait for others included
  Clock clock;                         // of the step
  std::int64_t bucket = 0;             // counted from the model's end
  std::int64_t bytes = 0;              // that this node sent
  bool copies = false;                 // exchange.shard_optimizer: parameters, instead of sums
  bool operator==(const BucketSpan&) const = default;
};

}  // namespace paceline
