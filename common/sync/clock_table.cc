#include "common/sync/clock_table.h"

#include "common/assert.h"

namespace paceline::sync {

void ClockTable::add(Clock at) {
  PACELINE_ASSERT(at.value >= base_, "a worker joins at clock " + to_string(at) + ", the table stands at " +
                                         std::to_string(base_));
  const auto place = static_cast<std::size_t>(at.value - base_);
  if (counts_.size() <= place) counts_.resize(place + 1);
  ++counts_[place];
  ++live_;
  if (departed_.size() < place) departed_.resize(place);
  for (std::size_t i = 0; i < place; ++i) --departed_[i];
}

void ClockTable::advance(Clock from) {
  --count_at(from);
  const std::size_t next = static_cast<std::size_t>(from.value + 1 - base_);
  if (next == counts_.size()) counts_.push_back(0);
  ++counts_[next];
  trim();
}

void ClockTable::remove(Clock at) {
  --count_at(at);
  --live_;
  const auto completed = static_cast<std::size_t>(at.value - base_);
  if (departed_.size() < completed) departed_.resize(completed);
  for (std::size_t i = 0; i < completed; ++i) ++departed_[i];
  trim();
}

std::int64_t ClockTable::contributors(Clock stamp) const {
  PACELINE_ASSERT(stamp.value >= base_,
                  "clock " + to_string(stamp) + " is below the base " + std::to_string(base_));
  const auto place = static_cast<std::size_t>(stamp.value - base_);
  return live_ + (place < departed_.size() ? departed_[place] : 0);
}

Clock ClockTable::min_clock() const {
  PACELINE_ASSERT(live_ > 0, "no live worker, no min clock");
  return Clock(base_);
}

Clock ClockTable::max_clock() const {
  PACELINE_ASSERT(live_ > 0, "no live worker, no max clock");
  return Clock(base_ + static_cast<std::int64_t>(counts_.size()) - 1);
}

std::int64_t& ClockTable::count_at(Clock clock) {
  const std::int64_t index = clock.value - base_;
  PACELINE_ASSERT(index >= 0 && index < static_cast<std::int64_t>(counts_.size()) &&
                      counts_[static_cast<std::size_t>(index)] > 0,
                  "no live worker stands at clock " + to_string(clock));
  return counts_[static_cast<std::size_t>(index)];
}

void ClockTable::trim() {
  while (!counts_.empty() && counts_.front() == 0) {
    counts_.pop_front();
    if (!departed_.empty()) departed_.pop_front();
    ++base_;
  }
  while (!counts_.empty() && counts_.back() == 0) counts_.pop_back();
}

}  // namespace paceline::sync
