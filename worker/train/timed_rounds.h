// TimedRounds: when a round that ends by time does (train.local_time), and whether that time has room for a mini-batch
// at all, which nobody knows before some were measured. Where none of a node's fitted, each round has one, and the log
// says so once:
//
//   my.yaml:12: train.local_time: shorter than a mini-batch, got 9ms, expected 12ms or more: each round has one
//
// Judged by the shortest of twice as many as there are threads: the first of each also prepares what is computed with.
//
// Thread: any; a node's training threads share one.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

#include "common/log/log.h"

namespace paceline {

class TimedRounds {
 public:
  // `source`: where the time is said, for people ("my.yaml:12"). `threads`: that share this.
  TimedRounds(std::chrono::nanoseconds time, std::string source, std::int64_t threads, Log log)
      : time_(time), source_(std::move(source)), checked_at_(2 * threads), log_(std::move(log)) {}

  // A worker's local step took `last`, and its round `taken` with it: whether the round ends by its time.
  bool step_took(std::chrono::nanoseconds taken, std::chrono::nanoseconds last);

 private:
  const std::chrono::nanoseconds time_;
  const std::string source_;
  const std::int64_t checked_at_;  // so many mini-batches
  const Log log_;
  std::mutex mutex_;
  std::int64_t measured_ = 0;
  std::chrono::nanoseconds shortest_ = std::chrono::nanoseconds::max();
};

}  // namespace paceline
