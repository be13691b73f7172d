// The two files that a sweep is for, as text: pure functions of the grid and of the rows of what is finished,
// so that the same points give the same bytes in whatever order they finished.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sweep/points.h"
#include "sweep/row.h"

namespace paceline::sweep {

using Rows = std::map<std::size_t, Row>;  // by point; settings: of the grid's swept keys

// sweep.csv: a row for each finished point, in the grid's order. Columns: point (its folder), the keys that
// are swept, with the values that they have there, status, seed, then kQuantities. A cell with a comma in it
// stands in quotes (RFC 4180); one without a number is empty.
std::string table(const Points& points, const Rows& rows);

// sweep.dat: the same for gnuplot and its like. The last axis with more than one alternative, but run.seed,
// is the x axis; every combination of the others is a series, which is a block: two empty lines before the
// next, first line its title in quotes, then a line for each x:
//
//     "policy=ssp"
//     "threshold=1" 1 5 676.7 670.1 680.2 …
//
// which is: x as text; x as a number, or, where not all values are numbers, its place from 0; how many runs
// (run.seed is no axis here, its runs are taken together); then for each of kQuantities mean, smallest and
// largest over them. A point where s_to_target was not reached by all runs has no such time: NaN, as for
// everything that is not a number. So has a point nothing but NaN where a run failed, lost nodes or did not
// do all its iterations: it would stand there as a quick one (only the time to a target that it reached
// before run.max_seconds ended it is one). sweep.csv has its numbers, beside its status, iterations and lost
// nodes. A line is there once its first run is finished.
std::string plot_blocks(const Points& points, const Rows& rows);

}  // namespace paceline::sweep
