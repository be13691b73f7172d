// What the page of a run shows out of its trace (common/trace): how far workers led the slowest, along the
// run, and every phase of some of its steps (page_spans.h). However long the run, it is some 100 kB.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "common/page/page_spans.h"
#include "common/trace/trace.h"

namespace paceline {

struct PageTraceLimits {
  std::size_t workers = 64;    // shown; of more the first of each stretch of them
  std::size_t stretches = 96;  // of time
  SpanLimits spans = {};       // of the timeline
};

// {"from": s, "stretch": s, "workers": ["0.0", …],
//  "gaps": [[clock - min clock of each worker, null where it takes no part], … at the end of each stretch],
//  and what add_spans() says}
// Seconds since the first grant. Of a trace without workers: an empty object; without decisions, since its
// authority was killed: what add_spans() says alone, and "origin", what its seconds count from instead.
nlohmann::ordered_json page_trace(const trace::Trace& trace, const PageTraceLimits& limits);

}  // namespace paceline
