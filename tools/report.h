// `paceline report RUN…`: what the run directories say, finished or not, as tables on the terminal, as
// Markdown, CSV or JSON. One run: how it ended, a row for each node, and its phases. Several: barrier,
// network, compute and total time, the accuracy and the nine phases of each, with the changes against the
// first in per cent, where they did the same work. With --compare, policies: their runs paired by seed, with
// intervals and verdicts (tools/compare_runs.h). With --html, a page of the runs instead
// (common/page/report_page.h).
#pragma once

#include <cstddef>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace paceline {

enum class ReportFormat { kTable, kCsv, kJson, kMarkdown };

struct ReportOptions {
  std::vector<std::string> runs = {};      // run directories, in the order of the command line
  bool compare = false;                    // policies, by seeds, instead of runs (compare_runs.h)
  std::optional<double> target = {};       // with compare: of the time to accuracy, 0..1
  bool json = false;                       // with compare
  std::optional<std::string> html = {};    // the file to write a page of the runs to
  std::optional<std::string> clocks = {};  // with html: A..B, of which iterations timelines are
  ReportFormat format = ReportFormat::kTable;
  bool coloured = false;    // tables, for a terminal
  std::size_t columns = 0;  // of the terminal; 0: any width
  bool nodes = false;       // of one run: a table of phases for each node
};

// The report to `out` and 0, or, of a page, a line with its name; what a directory lacks, unfinished or
// corrupt, is named there, too; beside CSV in lines to `err`. Or, for a directory that is missing, for runs
// that cannot be compared (--compare refuses those that are not finished), for a page that cannot be written
// and for options that make no sense, one line to `err`, 2, and nothing to `out`.
int report(const ReportOptions& options, std::ostream& out, std::ostream& err);

// The subcommand; when it is the one called, it stores its exit status in `exit_status`, which outlives
// `app`.
void add_report(CLI::App& app, int& exit_status);

}  // namespace paceline
