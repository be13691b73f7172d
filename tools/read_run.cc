#include "tools/read_run.h"

#include <filesystem>
#include <system_error>

#include "common/config/load.h"
#include "common/config/names.h"
#include "common/report/curve.h"

namespace paceline {
namespace {

Status check_is_directory(const std::string& folder) {
  std::error_code ignored;
  if (std::filesystem::is_directory(folder, ignored)) return Status::ok();
  return not_found(folder + ": no such run directory; give the run.out of a finished run");
}

// What it was to be.
void add_config(FinishedRun& run, const std::filesystem::path& folder) {
  const Result<RunConfig> config = load_config((folder / "config.yaml").string(), {}, LoadFor::kReading);
  run.has_config = config.is_ok();
  if (!config.is_ok()) return run.missing.push_back(config.status().message());
  run.summary.policy = name_of(config->sync.policy);
  run.summary.nodes = config->cluster.nodes;
  run.summary.threads_per_node = config->cluster.threads_per_node;
}

// How far it came.
void add_progress(FinishedRun& run, const std::filesystem::path& folder) {
  const Result<CurveSoFar> curve = read_curve_so_far(folder);
  run.has_progress = curve.is_ok() && !curve->rows.empty();
  if (!curve.is_ok()) return run.missing.push_back(curve.status().message());
  if (curve->last_line_cut) run.missing.push_back("curve.csv: the last line is cut, and left out");
  for (const CurveRow& row : curve->rows) {
    if (row.version >= run.summary.final_version) {
      run.summary.final_version = row.version;
      run.summary.final_threshold = row.threshold;
      run.summary.wall_seconds = row.seconds;
    }
    if (row.test_accuracy) run.summary.test_accuracy = row.test_accuracy;
  }
}

}  // namespace

Result<RunSummary> read_finished(const std::string& folder) {
  PACELINE_RETURN_IF_ERROR(check_is_directory(folder));
  Result<RunSummary> summary = read_summary(folder);
  if (summary.status().code() == StatusCode::kNotFound) {
    return failed_precondition(
        folder + ": unfinished, it has no summary.json; wait for its end, or see its server.log");
  }
  return summary;
}

Result<FinishedRun> read_run(const std::string& folder) {
  PACELINE_RETURN_IF_ERROR(check_is_directory(folder));
  FinishedRun run;
  run.name = folder;
  Result<RunSummary> summary = read_summary(folder);
  run.finished = summary.is_ok();
  if (run.finished) {
    run.summary = std::move(summary).value();
  } else {
    const bool none = summary.status().code() == StatusCode::kNotFound;
    run.summary.status = none ? "unfinished" : "unreadable";
    run.missing.push_back(none
                              ? "no summary.json: the run is unfinished, or it was killed; see its server.log"
                              : summary.status().message());
    add_config(run, folder);
    add_progress(run, folder);
  }
  Result<std::vector<WorkerPhases>> phases = read_phases(folder);
  if (phases.is_ok()) {
    run.workers = std::move(phases).value();
  } else if (!run.finished || run.summary.status == "ok" || phases.status().code() != StatusCode::kNotFound) {
    // A run that failed before any node could report has no phases, and lacks none.
    run.has_workers = false;
    run.missing.push_back(phases.status().message());
  }
  if (!run.finished) {
    PhaseTotals merged;
    for (const WorkerPhases& worker : run.workers) merge(merged, worker.totals);
    set_phases(run.summary, merged);
  }
  return run;
}

}  // namespace paceline
