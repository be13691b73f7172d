// What `paceline report` says of a run's pipeline: what its stages did and for whom they waited, a better cut, and, where
// the run has a trace, a step of it as a timeline of stages and micro-batches (Huang et al. 2018, figure 2c). Pure.
#pragma once

#include <optional>
#include <string>

#include "common/schedule/pipeline.h"
#include "common/trace/trace.h"
#include "tools/finished_run.h"
#include "tools/measured_cut.h"
#include "tools/text_table.h"

namespace paceline {

// A step as the stages of the first group ran it: the one of median length of those that the trace has whole.
struct TracedStep {
  Clock clock;
  std::size_t of = 0;  // so many steps
  schedule::PipelineTimes times;
};
std::optional<TracedStep> median_step(const trace::Trace& trace, std::size_t stages);

// Empty where the run has no pipeline. `trace`: null where there is none.
std::string pipeline_report(const FinishedRun& run, const trace::Trace* trace,
                            const std::optional<MeasuredCut>& cut, TextStyle style);

}  // namespace paceline
