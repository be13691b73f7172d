#include "tools/finished_run.h"

#include <algorithm>

#include "common/report/counted.h"

namespace paceline {

double per_worker(const FinishedRun& run, double total_seconds) {
  return total_seconds / static_cast<double>(std::max<std::size_t>(run.workers.size(), 1));
}

Times times_of(const FinishedRun& run) {
  const RunSummary& s = run.summary;
  const auto mean = [&](Phase phase) { return per_worker(run, s[phase].total_seconds); };
  return {mean(Phase::kBarrier), mean(Phase::kPsApplyGrads) + mean(Phase::kStep) + mean(Phase::kPsParam),
          mean(Phase::kComputeGrads), s.wall_seconds};
}

bool is_comparable(const FinishedRun& run) { return fault_of(run.summary).empty(); }

std::vector<std::string> caveats_of(const FinishedRun& run) {
  const RunSummary& s = run.summary;
  std::vector<std::string> caveats;
  if (s.status != "ok") {
    caveats.push_back(s.status + ", so without changes" + (s.reason.empty() ? "" : ": " + s.reason));
  }
  if (s.lost_nodes > 0) {
    caveats.push_back(std::to_string(s.lost_nodes) + " of " + std::to_string(s.nodes) +
                      " nodes lost, so without changes; seconds are of the " +
                      std::to_string(run.workers.size()) + " workers that reported");
  }
  if (s.simulated_seed) caveats.push_back("simulated with seed " + std::to_string(*s.simulated_seed));
  if (s.overruns > 0 && s.status != "invalid") {
    caveats.push_back(std::to_string(s.overruns) + " emulated steps overran");
  }
  for (const std::string& missing : run.missing) caveats.push_back(missing);
  return caveats;
}

}  // namespace paceline
