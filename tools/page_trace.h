// What the page of a run shows out of its trace (common/trace): how far workers led the slowest, along the
// run; how many gradients were applied in each stretch of it; and every phase of its newest steps. However
// long the run, it is some 100 kB.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "common/trace/trace.h"

namespace paceline {

struct PageTraceLimits {
  std::size_t workers = 64;    // shown; of more the first of each stretch of them
  std::size_t stretches = 96;  // of time
  std::size_t spans = 12'000;  // of the newest steps
};

// {"from": s, "stretch": s, "workers": ["0.0", …],
//  "gaps": [[clock - min clock of each worker, null where it takes no part], … at the end of each stretch],
//  "gradients": [applied in each stretch],
//  "spans": [[[phase, from µs, length µs, clock], …] of each worker], "spans_from": s}
// Seconds since the first grant. Of a trace without decisions or workers: an empty object.
nlohmann::ordered_json page_trace(const trace::Trace& trace, const PageTraceLimits& limits);

}  // namespace paceline
