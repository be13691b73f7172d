// The tables of `paceline report` for one run, as text: pure functions of what was read from its directory.
// Of several runs: runs_tables.h.
#pragma once

#include <string>

#include "common/report/finished_run.h"
#include "tools/text_table.h"

namespace paceline {

// What is said of the nodes: a row for each, or a table of phases for each.
enum class Nodes { kRows, kEachPhase };

// How the run ended, or, where it has not, how far it came, and what its directory lacks; then the nodes,
// with seconds of a worker (the mean over a node's), and the phases over all workers (no tables where no
// worker reported). In a phase table, total is the sum over the threads it covers, share is of their walls,
// and quantiles are of all their occurrences.
std::string phase_report(const FinishedRun& run, TextStyle style = TextStyle::kPlain,
                         Nodes nodes = Nodes::kRows);

}  // namespace paceline
