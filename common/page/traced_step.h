// A step of a pipeline out of a run's trace: the paper's figure of stages and micro-batches (Huang et al. 2018, figure
// 2c), as it was run. `paceline report` writes it as text, the page draws it. Pure.
#pragma once

#include <cstddef>
#include <optional>

#include "common/clock.h"
#include "common/schedule/pipeline.h"
#include "common/trace/trace.h"

namespace paceline {

// A step as the stages of the first group ran it: the one of median length of those that the trace has whole.
struct TracedStep {
  Clock clock;
  std::size_t of = 0;             // so many steps
  schedule::PipelineTimes times;  // seconds, from its first pass on
};
// None: the trace has no step of so many stages whole.
std::optional<TracedStep> median_step(const trace::Trace& trace, std::size_t stages);

}  // namespace paceline
