// What servers have moved, in bytes: header and payload bytes given to ZeroMQ, and payload bytes that lie in
// memory that both sides see instead. Both ways. And what nodes have sent each other of an all-reduce.
#pragma once

#include <chrono>
#include <cstdint>

namespace paceline {

struct Traffic {
  std::int64_t pushed = 0;  // gradients
  std::int64_t pulled = 0;  // parameters
  std::int64_t shared = 0;
  std::int64_t reduced = 0;              // payload bytes, by all nodes
  std::chrono::nanoseconds reducing{0};  // for so long, all nodes together: what they sent, or waited for

  std::int64_t sum() const { return pushed + pulled + shared + reduced; }
  // Bytes a second that a node sends while it reduces: the bus bandwidth of an all-reduce. 0: nothing yet.
  double bytes_per_second_reducing() const {
    const double seconds = std::chrono::duration<double>(reducing).count();
    return seconds > 0 ? static_cast<double>(reduced) / seconds : 0.0;
  }
  Traffic& operator+=(const Traffic& more) {
    pushed += more.pushed;
    pulled += more.pulled;
    shared += more.shared;
    reduced += more.reduced;
    reducing += more.reducing;
    return *this;
  }
  bool operator==(const Traffic&) const = default;
};

}  // namespace paceline
