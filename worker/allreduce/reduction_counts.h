// What a node's reductions have sent, and how long they took: of the running round, and of all. Guarded by whoever
// has it, but for traffic().
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "common/ticks.h"
#include "common/traffic.h"
#include "worker/exchange/exchange.h"

namespace paceline {

class ReductionCounts {
 public:
  void begin_round() { round_ = {}; }

  // A bucket is under way, and is done.
  void begin(Ticks now) { since_ = now; }
  void end(Ticks now, std::int64_t bytes) {
    const std::chrono::nanoseconds took = now - *std::exchange(since_, std::nullopt);
    round_.hidden += took;
    round_.bytes += bytes;
    add(took, bytes);
  }
  // What was sent after the last bucket, for which the training threads wait.
  void add(std::chrono::nanoseconds took, std::int64_t bytes) {
    reducing_ns_ += took.count();
    bytes_ += bytes;
  }

  // Of this round's buckets, of the one that is under way until then: another thread may have begun it since.
  EarlyPush of_round(Ticks until) const {
    EarlyPush early = round_;
    if (since_) early.hidden += std::max(until - *since_, std::chrono::nanoseconds::zero());
    return early;
  }
  // Of all. Thread: any, without a lock: each heartbeat asks, and the lock is held while the optimizer steps.
  Traffic traffic() const { return {.reduced = bytes_, .reducing = std::chrono::nanoseconds(reducing_ns_)}; }

 private:
  EarlyPush round_;
  std::optional<Ticks> since_;  // one is under way
  std::atomic<std::int64_t> bytes_ = 0;
  std::atomic<std::int64_t> reducing_ns_ = 0;
};

}  // namespace paceline
