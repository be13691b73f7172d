// A..B on a command line: the iterations with these clocks, both ends included.
#pragma once

#include <string>
#include <string_view>

#include "common/clock.h"
#include "common/status.h"

namespace paceline {

struct ClockRange {
  Clock first;
  Clock last;  // not before `first`

  bool contains(Clock clock) const { return first <= clock && clock <= last; }
  bool operator==(const ClockRange&) const = default;
};

// "100..120". Errors: kInvalidArgument, with what was got and what is expected.
Result<ClockRange> parse_clock_range(std::string_view text);

}  // namespace paceline
