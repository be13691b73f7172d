#include "tools/report.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "common/config/command_line.h"
#include "common/config/load.h"
#include "common/page/clock_range.h"
#include "common/page/report_page.h"
#include "common/report/comparable.h"
#include "common/report/finished_run.h"
#include "common/report/read_run.h"
#include "common/text/printable.h"
#include "common/trace/merge.h"
#include "tools/compare_output.h"
#include "tools/compare_runs.h"
#include "tools/report_data.h"
#include "tools/report_pipeline.h"
#include "tools/report_tables.h"
#include "tools/runs_tables.h"
#include "tools/terminal.h"

namespace paceline {
namespace {

int refused_report(std::ostream& err, const Status& status) {
  err << "paceline report: " << printable(status.message()) << "\n";
  return kExitUsage;
}

int compare(const ReportOptions& options, std::ostream& out, std::ostream& err) {
  std::vector<ComparedRun> runs;
  for (const std::string& folder : options.runs) {
    Result<ComparedRun> run = read_compared(folder);
    if (!run.is_ok()) return refused_report(err, run.status());
    if (!options.json) run->name = printable(folder);
    runs.push_back(std::move(run).value());
  }
  const Result<PolicyComparison> compared = compare_runs(runs, options.target);
  if (!compared.is_ok()) return refused_report(err, compared.status());
  out << (options.json ? comparison_json(*compared) : printable_lines(comparison_text(*compared)));
  return kExitOk;
}

int html_report(const ReportOptions& options, std::ostream& out, std::ostream& err) {
  std::optional<ClockRange> clocks;
  if (options.clocks) {
    const Result<ClockRange> given = parse_clock_range(*options.clocks);
    if (!given.is_ok()) return refused_report(err, Status(given.status()).with_context("--clocks"));
    clocks = *given;
  }
  const Result<WrittenPage> written = write_page(*options.html, options.runs, clocks);
  if (!written.is_ok()) return refused_report(err, written.status());
  out << *options.html << ": " << options.runs.size() << (options.runs.size() == 1 ? " run, " : " runs, ")
      << written->bytes / 1000 << " kB\n";
  for (const std::string& missing : written->missing) out << "  " << printable(missing) << "\n";
  return kExitOk;
}

ReportFormat format_of(const std::string& name) {
  if (name == "csv") return ReportFormat::kCsv;
  if (name == "json") return ReportFormat::kJson;
  return name == "markdown" ? ReportFormat::kMarkdown : ReportFormat::kTable;
}

bool is_for_people(ReportFormat format) {
  return format == ReportFormat::kTable || format == ReportFormat::kMarkdown;
}

// None where the run's configuration is not known whole.
std::optional<MeasuredCut> cut_of(const std::filesystem::path& folder, const RunSummary& ran) {
  const auto recorded = load_recorded_config((folder / "config.yaml").string());
  if (!recorded.is_ok() || !faults_of(*recorded).empty() || !recorded->config.pipeline.enabled()) {
    return std::nullopt;
  }
  // The stages' times are of the last generation's steps.
  const std::int64_t steps = ran.final_version.value - ran.resumed_from.value_or(Version(0)).value;
  return measured_cut(recorded->config, *ran.pipeline, steps);
}

std::string report_text(const ReportOptions& options, std::span<const FinishedRun> runs, TextStyle style,
                        std::ostream& err) {
  if (runs.size() > 1) return comparison(runs, style, options.columns);
  const FinishedRun& run = runs.front();
  std::string text = phase_report(run, style, options.nodes ? Nodes::kEachPhase : Nodes::kRows);
  if (!run.summary.pipeline) return text;
  const std::optional<MeasuredCut> cut = cut_of(options.runs.front(), run.summary);
  if (!run.summary.traced) return text + pipeline_report(run, nullptr, cut, style);
  const Result<trace::Trace> traced = trace::read_run(options.runs.front());
  if (!traced.is_ok()) err << "paceline report: " << printable(traced.status().message()) << "\n";
  return text + pipeline_report(run, traced.is_ok() ? &*traced : nullptr, cut, style);
}

std::string report_in(const ReportOptions& options, std::span<const FinishedRun> runs, std::ostream& err) {
  switch (options.format) {
    case ReportFormat::kTable:
      return report_text(options, runs, options.coloured ? TextStyle::kColoured : TextStyle::kPlain, err);
    case ReportFormat::kMarkdown:
      return report_text(options, runs, TextStyle::kMarkdown, err);
    case ReportFormat::kCsv:
      return report_csv(runs);
    case ReportFormat::kJson:
      return report_json(runs);
  }
  return "";
}

// CSV has no place for it.
void warn_of(std::span<const FinishedRun> runs, std::ostream& err) {
  constexpr std::size_t kWarningMax = 500;  // characters; what it quotes may be a damaged file
  for (const FinishedRun& run : runs) {
    for (const std::string& warning : warnings_of(run)) {
      err << "paceline report: " << fitted(printable(run.name + ": " + warning), kWarningMax) << "\n";
    }
  }
}

}  // namespace

int report(const ReportOptions& options, std::ostream& out, std::ostream& err) {
  if (!options.compare && (options.target || options.json)) {
    return refused_report(err,
                          invalid_argument("--target and --json go with --compare; expected --format json"));
  }
  if (options.format != ReportFormat::kTable && (options.compare || options.html)) {
    return refused_report(err,
                          invalid_argument("--format goes with neither --compare (see --json) nor --html"));
  }
  if (options.target && !(*options.target > 0.0 && *options.target <= 1.0)) {
    return refused_report(err, invalid_argument("--target: expected an accuracy above 0 and up to 1"));
  }
  if (options.html && options.compare) {
    return refused_report(err, invalid_argument("--html and --compare: expected one of them"));
  }
  if (options.clocks && !options.html) {
    return refused_report(err, invalid_argument("--clocks goes with --html: it says which iterations the "
                                                "page's timelines show"));
  }
  if (options.nodes && (options.compare || options.html || options.runs.size() > 1)) {
    return refused_report(err,
                          invalid_argument("--nodes: expected one run, and neither --compare nor --html"));
  }
  if (options.html) return html_report(options, out, err);
  if (options.compare) return compare(options, out, err);
  std::vector<FinishedRun> runs;
  for (const std::string& folder : options.runs) {
    Result<FinishedRun> run = read_run(folder);
    if (!run.is_ok()) return refused_report(err, run.status());
    runs.push_back(std::move(run).value());
  }
  mark_differences(runs);
  for (FinishedRun& run : runs) {
    if (is_for_people(options.format)) make_printable(run);  // programs are given names as they are
  }
  out << report_in(options, runs, err);
  if (options.format == ReportFormat::kCsv) warn_of(runs, err);
  return kExitOk;
}

void add_report(CLI::App& app, int& exit_status) {
  CLI::App* command = app.add_subcommand("report", "Show where the time of a run went; compare several runs");
  const auto options = std::make_shared<ReportOptions>();
  command->add_option("RUN", options->runs, "Run directories; changes are against the first")->required();
  command->add_flag("--compare", options->compare,
                    "Compare policies: runs paired by seed, intervals, a winner only where there is one");
  command->add_option("--target", options->target,
                      "With --compare: also the time to this test accuracy, e.g. 0.8");
  command->add_flag("--json", options->json, "With --compare: for scripts");
  const auto format = std::make_shared<std::string>("table");
  command->add_option("--format", *format, "table (default), csv, json or markdown")
      ->check(CLI::IsMember({"table", "csv", "json", "markdown"}));
  command->add_flag("--nodes", options->nodes, "Of one run: the phases of each node, too");
  command->add_option("--html", options->html,
                      "Write a page of the runs to this file instead: figures and tables, for any browser");
  command->add_option(
      "--clocks", options->clocks,
      "With --html: the iterations that timelines of traced runs show, A..B; else the newest");
  command->callback([options, format, &exit_status] {
    options->format = format_of(*format);
    options->coloured = takes_colour(STDOUT_FILENO);
    options->columns = columns_of(STDOUT_FILENO);
    exit_status = report(*options, std::cout, std::cerr);
  });
}

}  // namespace paceline
