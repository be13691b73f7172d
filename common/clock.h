// The numbers of bounded staleness, each with its own type: Clock, Version, Revision, Staleness, Threshold.
// A Clock minus a Clock is a Staleness; nothing converts back by itself.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <string>

#include "common/assert.h"

namespace paceline {

// A difference of clocks (iterations). Negative when the first is behind.
struct Staleness {
  std::int64_t value = 0;
  constexpr Staleness() = default;
  constexpr explicit Staleness(std::int64_t v) : value(v) {}
  auto operator<=>(const Staleness&) const = default;
};

// The number of iterations a worker has completed. As a timestamp: the clock a worker had when it began one.
struct Clock {
  std::int64_t value = 0;
  constexpr Clock() = default;
  constexpr explicit Clock(std::int64_t v) : value(v) {}
  auto operator<=>(const Clock&) const = default;
  constexpr Clock next() const { return Clock(value + 1); }
  friend constexpr Staleness operator-(Clock a, Clock b) { return Staleness(a.value - b.value); }
};

// Version v of the global parameters: every live worker's gradients stamped < v are in them. kNone: none held
// yet.
struct Version {
  std::int64_t value = 0;
  constexpr Version() = default;
  constexpr explicit Version(std::int64_t v) : value(v) {}
  auto operator<=>(const Version&) const = default;
};
inline constexpr Version kNoVersion{-1};

// The number of gradients applied, in the one order the authority decides for all shards. It always grows,
// also where the version stands still (eager). kNoRevision: nothing held yet.
struct Revision {
  std::int64_t value = 0;
  constexpr Revision() = default;
  constexpr explicit Revision(std::int64_t v) : value(v) {}
  auto operator<=>(const Revision&) const = default;
};
inline constexpr Revision kNoRevision{-1};

// The threshold s: how far a worker may lead the slowest when it is granted an iteration. 0 is BSP, infinite
// ASP.
class Threshold {
 public:
  constexpr Threshold() = default;
  constexpr explicit Threshold(std::int64_t s) : s_(s) {}
  static constexpr Threshold infinite() { return Threshold(kInfinite); }

  constexpr bool is_infinite() const { return s_ == kInfinite; }
  // The finite value; asking an infinite threshold for it is our own bug.
  std::int64_t value() const {
    PACELINE_ASSERT(!is_infinite(), "an infinite threshold has no value");
    return s_;
  }
  constexpr bool allows(Staleness lead) const { return is_infinite() || lead.value <= s_; }
  // The oldest version a worker at `clock` may compute with: max(0, c - s) (docs/SYNC.md, The one rule).
  constexpr Version oldest_version(Clock clock) const {
    if (is_infinite() || clock.value <= s_) return Version(0);
    return Version(clock.value - s_);
  }
  auto operator<=>(const Threshold&) const = default;

 private:
  static constexpr std::int64_t kInfinite = std::numeric_limits<std::int64_t>::max();
  std::int64_t s_ = 0;
};

inline std::string to_string(Clock c) { return std::to_string(c.value); }
inline std::string to_string(Version v) { return std::to_string(v.value); }
inline std::string to_string(Revision r) { return std::to_string(r.value); }
inline std::string to_string(Staleness s) { return std::to_string(s.value); }
// "3", or "inf" (as in CSV).
inline std::string to_string(Threshold s) { return s.is_infinite() ? "inf" : std::to_string(s.value()); }

}  // namespace paceline
