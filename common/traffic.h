// What servers have moved, in bytes: header and payload bytes given to ZeroMQ, and payload bytes that lie in
// memory that both sides see instead. Both ways.
#pragma once

#include <cstdint>

namespace paceline {

struct Traffic {
  std::int64_t pushed = 0;  // gradients
  std::int64_t pulled = 0;  // parameters
  std::int64_t shared = 0;

  std::int64_t sum() const { return pushed + pulled + shared; }
  Traffic& operator+=(const Traffic& more) {
    pushed += more.pushed;
    pulled += more.pulled;
    shared += more.shared;
    return *this;
  }
  bool operator==(const Traffic&) const = default;
};

}  // namespace paceline
