// EventQueue: virtual time. What is to happen, and when; the next thing is the earliest, and of things at one
// and the same time the one that was scheduled first. That is the whole tie-break, so a run is a function of
// its seed and configuration alone.
//
//   queue.at(Ticks(5), a); queue.at(Ticks(3), b); queue.at(Ticks(5), c);
//   next() -> b, now() is 3        next() -> a        next() -> c, now() is 5
//
// A heap of four children a node: half as deep as a binary one, and the four lie in one or two cache lines.
// O(log n) in the number of things scheduled, which is about one for each worker.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/assert.h"
#include "common/instant.h"
#include "simulate/virtual_time.h"

namespace paceline::simulate {

// `Event`: small and copyable. Thread: one.
template <typename Event>
class EventQueue {
 public:
  // Of the event taken last; 0 before the first.
  Ticks now() const { return now_; }
  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }

  // `when` is not before now(). Past the end of time is at it.
  void at(Ticks when, const Event& event) {
    PACELINE_ASSERT(when >= now_, "an event at " + std::to_string(when.ns) + " ns, which is over");
    Entry entry{std::min(when, kEndOfTime), order_++, event};
    std::size_t place = heap_.size();
    heap_.push_back(entry);
    while (place > 0) {
      const std::size_t parent = (place - 1) / kChildren;
      if (!entry.before(heap_[parent])) break;
      heap_[place] = heap_[parent];
      place = parent;
    }
    heap_[place] = entry;
  }

  // Takes the next event; there must be one. Time moves to it.
  Event next() {
    PACELINE_ASSERT(!heap_.empty(), "nothing is going to happen");
    const Entry first = heap_.front();
    const Entry last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sift_down(last);
    now_ = first.when;
    return first.event;
  }

 private:
  static constexpr std::size_t kChildren = 4;
  struct Entry {
    Ticks when;
    std::uint64_t order;
    Event event;
    bool before(const Entry& other) const {
      return when != other.when ? when < other.when : order < other.order;
    }
  };

  // Puts `entry` where it belongs, starting at the empty root.
  void sift_down(const Entry& entry) {
    std::size_t place = 0;
    for (;;) {
      const std::size_t begin = place * kChildren + 1;
      if (begin >= heap_.size()) break;
      const std::size_t end = std::min(begin + kChildren, heap_.size());
      std::size_t least = begin;
      for (std::size_t child = begin + 1; child < end; ++child) {
        if (heap_[child].before(heap_[least])) least = child;
      }
      if (!heap_[least].before(entry)) break;
      heap_[place] = heap_[least];
      place = least;
    }
    heap_[place] = entry;
  }

  std::vector<Entry> heap_;
  Ticks now_;
  std::uint64_t order_ = 0;
};

}  // namespace paceline::simulate
