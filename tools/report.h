// `paceline report RUN…`: what the run directories say, as tables on the terminal. One run: its phases for
// each node and overall, and how it ended. Several: barrier, network, compute and total time, the accuracy
// and the nine phases of each, with the changes against the first in per cent.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace paceline {

struct ReportOptions {
  std::vector<std::string> runs = {};  // run directories, in the order of the command line
};

// The tables to `out` and 0; or, for a directory that is missing, unfinished or corrupt, one line to `err`,
// 2, and nothing to `out`.
int report(const ReportOptions& options, std::ostream& out, std::ostream& err);

// The subcommand; when it is the one called, it stores its exit status in `exit_status`, which outlives
// `app`.
void add_report(CLI::App& app, int& exit_status);

}  // namespace paceline
