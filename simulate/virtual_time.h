// Where virtual time ends. Lengths are products of what was configured (a mean, a slowdown, a heavy tail;
// bytes and a bandwidth), so they may be longer than 64 bits of nanoseconds hold, 292 years. Nothing is: a
// century is the end of time, far beyond any run, and a length or an instant past it is that end. A run that
// gets there is over, and says so (World::run).
//
//   after(Ticks(5), 3 ns) is 8        after(Ticks(5), 200 years) is kEndOfTime
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>

#include "common/instant.h"

namespace paceline::simulate {

constexpr std::chrono::nanoseconds kCentury = std::chrono::hours(24 * 36'525);
constexpr Ticks kEndOfTime(kCentury.count());

// Of a computation, the forward pass: the backward pass has two products where that has one.
constexpr double kForwardShare = 1.0 / 3.0;

// `length` after `from`, which is not past the end. `length` >= 0.
constexpr Ticks after(Ticks from, std::chrono::nanoseconds length) {
  return length >= kEndOfTime - from ? kEndOfTime : from + length;
}

// So many whole nanoseconds, rounded; a century at most. `ns` >= 0, or infinite.
inline std::chrono::nanoseconds length_of(double ns) {
  if (!(ns < static_cast<double>(kCentury.count()))) return kCentury;
  return std::chrono::nanoseconds(std::llround(ns));
}

// As messages say it: "1.5 s".
inline std::string in_seconds(std::chrono::nanoseconds length) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g s", to_seconds(length));
  return text;
}

}  // namespace paceline::simulate
