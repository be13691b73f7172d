// Ticks: nanoseconds on a clock that only goes forward, as a bare value. Which clock is the caller's
// business: the steady clock in the daemons (common/ticks.h), whatever they say in the simulator and the
// tests. That is why the pure core includes this header and never the other one.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>

namespace paceline {

struct Ticks {
  std::int64_t ns = 0;
  constexpr Ticks() = default;
  constexpr explicit Ticks(std::int64_t nanoseconds) : ns(nanoseconds) {}
  auto operator<=>(const Ticks&) const = default;
  friend constexpr std::chrono::nanoseconds operator-(Ticks a, Ticks b) {
    return std::chrono::nanoseconds(a.ns - b.ns);
  }
  friend constexpr Ticks operator+(Ticks a, std::chrono::nanoseconds d) { return Ticks(a.ns + d.count()); }
};

constexpr double to_seconds(std::chrono::nanoseconds d) { return static_cast<double>(d.count()) * 1e-9; }

}  // namespace paceline
