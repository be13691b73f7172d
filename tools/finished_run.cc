#include "tools/finished_run.h"

#include "common/report/counted.h"

namespace paceline {
namespace {

// Whose phases the sums of the summary are; 0: nobody knows. In a run that ended well all have reported,
// whatever phases.csv still has of them.
std::size_t workers_summed(const FinishedRun& run) {
  const RunSummary& s = run.summary;
  const bool all = run.finished && s.lost_nodes == 0 && (s.status == "ok" || run.workers.empty());
  return all ? s.workers() : run.workers.size();
}

bool lacks_phases(const FinishedRun& run) {
  return fault_of(run.summary).empty() && run.workers.size() != run.summary.workers();
}

}  // namespace

std::optional<double> per_worker(const FinishedRun& run, double total_seconds) {
  const std::size_t workers = workers_summed(run);
  if (workers == 0) return std::nullopt;
  return total_seconds / static_cast<double>(workers);
}

Times times_of(const FinishedRun& run) {
  const RunSummary& s = run.summary;
  const auto mean = [&](double total_seconds) { return per_worker(run, total_seconds); };
  const double network = s[Phase::kPsApplyGrads].total_seconds + s[Phase::kStep].total_seconds +
                         s[Phase::kPsParam].total_seconds;
  return {mean(s[Phase::kBarrier].total_seconds), mean(network), mean(s[Phase::kComputeGrads].total_seconds),
          run.has_progress ? std::optional<double>(s.wall_seconds) : std::nullopt};
}

bool is_comparable(const FinishedRun& run) { return fault_of(run.summary).empty() && !lacks_phases(run); }

std::vector<std::string> caveats_of(const FinishedRun& run) {
  std::vector<std::string> caveats = warnings_of(run);
  if (const auto& seed = run.summary.simulated_seed) {
    caveats.insert(caveats.begin(), "simulated with seed " + std::to_string(*seed));
  }
  return caveats;
}

std::vector<std::string> warnings_of(const FinishedRun& run) {
  const RunSummary& s = run.summary;
  std::vector<std::string> warnings;
  if (s.status != "ok") {
    warnings.push_back(s.status + ", so without changes" + (s.reason.empty() ? "" : ": " + s.reason));
  }
  if (s.lost_nodes > 0) {
    warnings.push_back(std::to_string(s.lost_nodes) + " of " + std::to_string(s.nodes) +
                       " nodes lost, so without changes; seconds are of the " +
                       std::to_string(run.workers.size()) + " workers that reported");
  }
  if (lacks_phases(run)) {
    warnings.push_back("its directory has the phases of " + std::to_string(run.workers.size()) + " of " +
                       std::to_string(s.workers()) + " workers, so without changes");
  }
  if (s.overruns > 0 && s.status != "invalid") {
    warnings.push_back(std::to_string(s.overruns) + " emulated steps overran");
  }
  for (const std::string& missing : run.missing) warnings.push_back(missing);
  return warnings;
}

}  // namespace paceline
