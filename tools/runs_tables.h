// The tables of `paceline report` for several runs, as text: pure functions of what was read from their
// directories.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "common/report/finished_run.h"
#include "tools/text_table.h"

namespace paceline {

// First the runs, in seconds for each worker that reported (Times), so that they add up to no more than the
// total; then the nine phases, a column for each run. After each time, its change against the first run in
// per cent; after the accuracy, the difference in points. No change where one of the two runs is not
// comparable: such runs are named below the tables with the reason (caveats_of()); nor where both numbers are
// printed alike or are below a millisecond, of which it would be noise.
//
// No line is wider than `columns` as far as that can be (0: any width, a line for each run): where the runs
// do not fit, each has a line for its name, one for its numbers and one for the changes, and the phases have
// as many runs beside each other as fit. Markdown has any width.
std::string comparison(std::span<const FinishedRun> runs, TextStyle style = TextStyle::kPlain,
                       std::size_t columns = 0);

}  // namespace paceline
