// Ticks: nanoseconds on a clock that only goes forward. In the daemons it is the steady clock; in the simulator and
// in the tests it is whatever the caller says, which is why the pure core takes it as an argument.
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

// Now, on this machine's steady clock. Not comparable between machines.
inline Ticks steady_now() {
  return Ticks(std::chrono::duration_cast<std::chrono::nanoseconds>(
                   std::chrono::steady_clock::now().time_since_epoch())
                   .count());
}

constexpr double to_seconds(std::chrono::nanoseconds d) { return static_cast<double>(d.count()) * 1e-9; }

}  // namespace paceline
