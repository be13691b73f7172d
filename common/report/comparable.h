// Which of several runs did the same work on the same cluster as the first: a run of a fifth of the
// iterations is not faster. Pure.
#pragma once

#include <span>

#include "common/report/finished_run.h"

namespace paceline {

// Fills `differs` of each run but the first with what tells its work from the first one's: the keys of their
// configurations (same_work.h), whether they were simulated and with which trace; where a configuration is
// not known, what the summaries say: workers, and iterations that are more than one in a hundred apart.
void mark_differences(std::span<FinishedRun> runs);

}  // namespace paceline
