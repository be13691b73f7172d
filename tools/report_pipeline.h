// What `paceline report` says of a run's pipeline: what its stages did and for whom they waited, a better cut, and,
// where the run has a trace, a step of it as a timeline (traced_step.h). Pure.
#pragma once

#include <optional>
#include <string>

#include "common/report/finished_run.h"
#include "common/trace/trace.h"
#include "tools/measured_cut.h"
#include "tools/text_table.h"

namespace paceline {

// Empty where the run has no pipeline. `trace`: null where there is none.
std::string pipeline_report(const FinishedRun& run, const trace::Trace* trace,
                            const std::optional<MeasuredCut>& cut, TextStyle style);

}  // namespace paceline
