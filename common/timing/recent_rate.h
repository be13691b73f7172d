// How fast a count grows now: its growth over the last kSeconds seconds, from readings that are a second
// apart or more. What the status of a run calls samples and iterations per second.
//
// Pure: time is passed in. Thread: one. Memory: a reading for each second.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>

#include "common/instant.h"

namespace paceline {

class RecentRate {
 public:
  static constexpr int kSeconds = 10;

  // The count stands at `count` at `now`, neither smaller than at the call before.
  void read(std::int64_t count, Ticks now) {
    if (!readings_.empty() && now - readings_.back().at < std::chrono::seconds(1)) return;
    readings_.push_back({now, count});
    while (readings_.size() > 2 && now - readings_[1].at >= std::chrono::seconds(kSeconds)) {
      readings_.pop_front();
    }
  }

  // Nothing before the first second is over.
  std::optional<double> per_second(std::int64_t count, Ticks now) const {
    if (readings_.empty() || now - readings_.front().at < std::chrono::seconds(1)) return std::nullopt;
    return static_cast<double>(count - readings_.front().count) / to_seconds(now - readings_.front().at);
  }

 private:
  struct Reading {
    Ticks at;
    std::int64_t count = 0;
  };
  std::deque<Reading> readings_;
};

}  // namespace paceline
