// Reading runs from their directories, with one line that says what is wrong with one.
#pragma once

#include <string>
#include <vector>

#include "common/config/load.h"
#include "common/report/finished_run.h"
#include "common/report/run_summary.h"
#include "common/status.h"

namespace paceline {

// What the summary of a finished run says. Errors: kNotFound no such directory; kFailedPrecondition
// unfinished, it has no summary.json; those of read_summary().
Result<RunSummary> read_finished(const std::string& folder);

// What is wrong with a recorded configuration, a line for each: keys of another version, keys that it lacks.
std::vector<std::string> faults_of(const RecordedConfig& recorded);

// Whatever the directory has, with what it lacks named. Errors: kNotFound no such directory.
Result<FinishedRun> read_run(const std::string& folder);

}  // namespace paceline
