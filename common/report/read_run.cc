#include "common/report/read_run.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <system_error>
#include <utility>

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

// "keys a, b and 3 more"
std::string enumerated_keys(const std::vector<std::string>& keys) {
  constexpr std::size_t kNamed = 8;
  std::string text = keys.size() == 1 ? "key " : "keys ";
  for (std::size_t i = 0; i < std::min(keys.size(), kNamed); ++i) text += (i == 0 ? "" : ", ") + keys[i];
  if (keys.size() > kNamed) text += " and " + std::to_string(keys.size() - kNamed) + " more";
  return text;
}

bool lacks(const FinishedRun& run, std::initializer_list<const char*> keys) {
  return std::any_of(keys.begin(), keys.end(), [&](const char* key) { return run.lacks(key); });
}

}  // namespace

std::vector<std::string> faults_of(const RecordedConfig& recorded) {
  std::vector<std::string> faults;
  if (!recorded.unknown_keys.empty()) {
    faults.push_back("config.yaml is cut, or of another version: unknown " +
                     enumerated_keys(recorded.unknown_keys));
  }
  if (!recorded.missing_keys.empty()) {
    faults.push_back("config.yaml is cut, or of another version: no " +
                     enumerated_keys(recorded.missing_keys));
  }
  return faults;
}

namespace {

// What it was to be. What its summary says stands.
void add_config(FinishedRun& run, const std::filesystem::path& folder) {
  const Result<RecordedConfig> recorded = load_recorded_config((folder / "config.yaml").string());
  if (!recorded.is_ok()) {
    // A run that has ended needs none to be shown; one that is there and cannot be read is still named.
    const bool none = recorded.status().code() == StatusCode::kNotFound;
    if (run.finished && none) return;
    return run.missing.push_back(none ? "no config.yaml" : recorded.status().message());
  }
  for (std::string& fault : faults_of(*recorded)) run.missing.push_back(std::move(fault));
  const RunConfig& config = recorded->config;
  run.configuration = effective_values(config);
  std::erase_if(run.configuration, [&](const auto& entry) { return !recorded->has_key(entry.first); });
  if (run.has_config) return;
  run.has_config = true;
  const auto knows = [&](const char* key, const char* path) {
    if (run.finished && !lacks(run, {key})) return false;
    const bool has_key = recorded->has_key(path);
    if (!has_key) run.has_config = false;
    return has_key;
  };
  if (knows("policy", "sync.policy")) {
    run.summary.policy = name_of(config.sync.policy);
  } else if (!run.finished) {
    run.summary.policy.clear();
  }
  if (knows("nodes", "cluster.nodes")) run.summary.nodes = config.cluster.nodes;
  if (knows("threads_per_node", "cluster.threads_per_node")) {
    run.summary.threads_per_node = config.cluster.threads_per_node;
  }
}

// How far it came. What its summary says stands.
void add_progress(FinishedRun& run, const std::filesystem::path& folder) {
  const RunSummary reported = run.summary;
  const Result<CurveSoFar> curve = read_curve_so_far(folder);
  const bool knows_end = run.finished && !lacks(run, {"wall_seconds", "final_version"});
  run.has_progress = knows_end || (curve.is_ok() && !curve->rows.empty());
  if (!curve.is_ok()) return run.missing.push_back(curve.status().message());
  for (const std::string& column : curve->lacking) {
    run.missing.push_back("curve.csv is of an older version: no column " + column);
  }
  if (curve->last_line_cut) run.missing.push_back("curve.csv: the last line is cut, and left out");
  Version threshold_of;
  for (const CurveRow& row : curve->rows) {
    if (row.version >= run.summary.final_version) {
      run.summary.final_version = row.version;
      run.summary.wall_seconds = row.seconds;
    }
    if (row.version >= threshold_of) {
      threshold_of = row.version;
      run.summary.final_threshold = row.threshold;
      run.has_threshold = true;
    }
    if (row.test_accuracy) run.summary.test_accuracy = row.test_accuracy;
  }
  if (!run.finished) return;
  if (!lacks(run, {"wall_seconds"})) run.summary.wall_seconds = reported.wall_seconds;
  if (!lacks(run, {"final_version"})) run.summary.final_version = reported.final_version;
  if (!lacks(run, {"final_threshold"})) run.summary.final_threshold = reported.final_threshold;
  if (!lacks(run, {"test_accuracy"})) run.summary.test_accuracy = reported.test_accuracy;
}

// Of an older version it may have some keys only; what it lacks is looked for in the other files.
void add_summary(FinishedRun& run, SummaryThere there) {
  run.summary = std::move(there.summary);
  run.lacking = std::move(there.lacking);
  run.has_config = !lacks(run, {"policy", "nodes", "threads_per_node"});
  run.has_progress = !lacks(run, {"wall_seconds", "final_version"});
  run.has_threshold = !lacks(run, {"final_threshold"});
  if (run.lacking.empty()) return;
  run.missing.push_back("summary.json is of another version: no " + enumerated_keys(run.lacking) +
                        "; what is said of them here comes from other files");
}

bool all_finished_early(const FinishedRun& run) {
  const RunSummary& s = run.summary;
  return run.finished && s.lost_nodes == 0 && s.iterations_undone > 0;
}

void add_phases(FinishedRun& run, const std::filesystem::path& folder) {
  Result<PhasesThere> phases = read_phases_there(folder);
  const bool so_far = phases.is_ok() && phases->so_far;
  if (phases.is_ok()) {
    run.workers = std::move(phases->workers);
    run.missing.insert(run.missing.end(), phases->lacking.begin(), phases->lacking.end());
  } else if (!run.finished || run.summary.status == "ok" || phases.status().code() != StatusCode::kNotFound) {
    // A run that failed before any node could report has no phases, and lacks none.
    run.has_workers = false;
    const bool none = phases.status().code() == StatusCode::kNotFound;
    run.missing.push_back(none && all_finished_early(run)
                              ? "no phases: nodes report them at a run's end, and all finished early"
                              : phases.status().message());
  }
  // Of a run that failed before its nodes could report the summary has none.
  if (run.finished && !so_far && !lacks(run, {"phases", "unaccounted_seconds"})) return;
  PhaseTotals merged;
  for (const WorkerPhases& worker : run.workers) merge(merged, worker.totals);
  set_phases(run.summary, merged);
}

}  // namespace

Result<RunSummary> read_finished(const std::string& folder) {
  PACELINE_RETURN_IF_ERROR(check_is_directory(folder));
  Result<RunSummary> summary = read_summary(folder);
  if (summary.status().code() == StatusCode::kNotFound) {
    const std::filesystem::path inner =
        std::filesystem::path(folder) / "run";  // as `doctor --exchange` leaves one
    std::error_code ignored;
    if (std::filesystem::exists(inner / "summary.json", ignored)) {
      return failed_precondition(folder + ": no run directory, expected " + inner.string());
    }
    return failed_precondition(
        folder + ": unfinished, it has no summary.json; wait for its end, or see its server.log");
  }
  return summary;
}

Result<FinishedRun> read_run(const std::string& folder) {
  PACELINE_RETURN_IF_ERROR(check_is_directory(folder));
  FinishedRun run;
  run.name = folder;
  Result<SummaryThere> summary = read_summary_there(folder);
  run.finished = summary.is_ok();
  if (run.finished) {
    add_summary(run, std::move(summary).value());
  } else {
    const bool none = summary.status().code() == StatusCode::kNotFound;
    run.summary.status = none ? "unfinished" : "unreadable";
    run.missing.push_back(none
                              ? "no summary.json: the run is unfinished, or it was killed; see its server.log"
                              : summary.status().message());
    run.has_config = run.has_progress = run.has_threshold = false;
  }
  add_config(run, folder);
  if (!run.has_progress || !run.has_threshold) add_progress(run, folder);
  add_phases(run, folder);
  return run;
}

}  // namespace paceline
