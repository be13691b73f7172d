#include "tools/read_run.h"

#include <filesystem>
#include <system_error>

namespace paceline {

Result<RunSummary> read_finished(const std::string& folder) {
  const std::filesystem::path path(folder);
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) {
    return not_found(folder + ": no such run directory; give the run.out of a finished run");
  }
  Result<RunSummary> summary = read_summary(path);
  if (summary.status().code() == StatusCode::kNotFound) {
    return failed_precondition(
        folder + ": unfinished, it has no summary.json; wait for its end, or see its server.log");
  }
  return summary;
}

Result<FinishedRun> read_run(const std::string& folder) {
  FinishedRun run;
  run.name = folder;
  PACELINE_ASSIGN_OR_RETURN(run.summary, read_finished(folder));
  Result<std::vector<WorkerPhases>> phases = read_phases(folder);
  // A run that failed before any node could report has no phases; what its summary says is still worth
  // showing.
  const bool none = phases.status().code() == StatusCode::kNotFound && run.summary.status != "ok";
  if (!none) {
    PACELINE_ASSIGN_OR_RETURN(run.workers, std::move(phases));
  }
  return run;
}

}  // namespace paceline
