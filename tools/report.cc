#include "tools/report.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>

#include "common/config/command_line.h"
#include "tools/report_tables.h"

namespace paceline {
namespace {

Result<FinishedRun> read_run(const std::string& folder) {
  const std::filesystem::path path(folder);
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) {
    return not_found(folder + ": no such run directory; give the run.out of a finished run");
  }
  FinishedRun run;
  run.name = folder;
  Result<RunSummary> summary = read_summary(path);
  if (summary.status().code() == StatusCode::kNotFound) {
    return failed_precondition(
        folder + ": unfinished, it has no summary.json; wait for its end, or see its server.log");
  }
  PACELINE_ASSIGN_OR_RETURN(run.summary, std::move(summary));
  Result<std::vector<WorkerPhases>> phases = read_phases(path);
  // A run that failed before any node could report has no phases; what its summary says is still worth
  // showing.
  const bool none = phases.status().code() == StatusCode::kNotFound && run.summary.status != "ok";
  if (!none) {
    PACELINE_ASSIGN_OR_RETURN(run.workers, std::move(phases));
  }
  return run;
}

}  // namespace

int report(const ReportOptions& options, std::ostream& out, std::ostream& err) {
  std::vector<FinishedRun> runs;
  for (const std::string& folder : options.runs) {
    Result<FinishedRun> run = read_run(folder);
    if (!run.is_ok()) {
      err << "paceline report: " << run.status().message() << "\n";
      return kExitUsage;
    }
    runs.push_back(std::move(run).value());
  }
  out << (runs.size() == 1 ? phase_report(runs.front()) : comparison(runs));
  return kExitOk;
}

void add_report(CLI::App& app, int& exit_status) {
  CLI::App* command = app.add_subcommand("report", "Show where the time of a run went; compare several runs");
  const auto options = std::make_shared<ReportOptions>();
  command->add_option("RUN", options->runs, "Run directories; changes are against the first")->required();
  command->callback([options, &exit_status] { exit_status = report(*options, std::cout, std::cerr); });
}

}  // namespace paceline
