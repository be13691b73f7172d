// The timeline of a page: every phase of some workers, of the newest steps or of those that were asked for.
// A page has room for so many phases: of the newest steps the newest are there, of a chosen stretch the
// first, and how many there are of it is said.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "common/instant.h"
#include "common/page/clock_range.h"
#include "common/trace/trace.h"

namespace paceline {

struct SpanLimits {
  std::size_t most = 12'000;
  std::optional<ClockRange> clocks = {};  // of these iterations; none: the newest
};

// Adds to `page`
//   "spans": [[[phase, from µs, length µs, clock], …] of each worker], "spans_from": s since `origin`
// and, where clocks were asked for,
//   "asked": {"clocks": [first, last], "phases": how many they have, "traced": [first, last] or null}
// `traced` being the clocks of which these workers have anything.
void add_spans(nlohmann::ordered_json& page, const std::vector<const trace::WorkerSpans*>& workers,
               Ticks origin, const SpanLimits& limits);

}  // namespace paceline
