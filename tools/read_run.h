// Reading finished runs from their directories, with one line that says what is wrong with one.
#pragma once

#include <string>

#include "common/report/run_summary.h"
#include "common/status.h"
#include "tools/report_tables.h"

namespace paceline {

// What the summary of a finished run says. Errors: kNotFound no such directory; kFailedPrecondition
// unfinished, it has no summary.json; those of read_summary().
Result<RunSummary> read_finished(const std::string& folder);

// With the phases of its workers. Errors: besides, those of read_phases(), but for a run that failed before
// any node could report and has none.
Result<FinishedRun> read_run(const std::string& folder);

}  // namespace paceline
