// The tables of `paceline report`, as text: pure functions of what was read from the run directories.
#pragma once

#include <span>
#include <string>

#include "tools/finished_run.h"
#include "tools/text_table.h"

namespace paceline {

// One run: a phase table for each node and one over all (none where no worker reported), then how the run
// ended, or, where it has not, how far it came, and what its directory lacks. In a table, total is the sum
// over the threads it covers, share is of their walls, and quantiles are of all their occurrences.
std::string phase_report(const FinishedRun& run, TextStyle style = TextStyle::kPlain);

// Several runs. First one line each, in seconds for each worker that reported (Times), so that they add up to
// no more than the total; then the nine phases, a column for each run. Behind each time, its change against
// the first run in per cent; behind the accuracy, the difference in points. Neither where one of the two runs
// is not comparable: such runs are named below the tables with the reason (caveats_of()).
std::string comparison(std::span<const FinishedRun> runs, TextStyle style = TextStyle::kPlain);

}  // namespace paceline
