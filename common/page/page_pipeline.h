// What the page of a run shows of its pipeline out of its trace: the median step, pass by pass (traced_step.h).
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>

#include "common/trace/trace.h"

namespace paceline {

// {"clock": c, "of": so many steps, "step": s, "bubble": share of all stages' time, "passes": how many it has,
//  "rows": [[[0 forward, 1 forward once more, 2 backward; micro-batch, from µs, length µs], …] of each stage]}
// Of more than `most` passes the first are there. Null: the trace has no step of so many stages whole.
nlohmann::ordered_json page_pipeline(const trace::Trace& trace, std::size_t stages, std::size_t most);

}  // namespace paceline
