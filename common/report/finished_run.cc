#include "common/report/finished_run.h"

#include <algorithm>

#include "common/report/counted.h"
#include "common/text/printable.h"

namespace paceline {
namespace {

bool any_phase(const RunSummary& summary) {
  return std::any_of(summary.phases.begin(), summary.phases.end(),
                     [](const PhaseSum& sum) { return sum.count > 0 || sum.total_seconds > 0.0; });
}

// Whose phases the sums of the summary are; 0: nobody knows. In a run that ended well all have reported,
// whatever phases.csv still has of them; in one that failed maybe nobody.
std::size_t workers_summed(const FinishedRun& run) {
  const RunSummary& s = run.summary;
  const bool all =
      run.finished && s.lost_nodes == 0 && (s.status == "ok" || (run.workers.empty() && any_phase(s)));
  return all ? s.workers() : run.workers.size();
}

bool lacks_phases(const FinishedRun& run) {
  return fault_of(run.summary).empty() && run.workers.size() != run.summary.workers();
}

// "train.batch_size is 32, there 64"; of a long value (a list of layers) only that it differs.
std::string difference_text(const Difference& d) {
  constexpr std::size_t kValueMax = 40;
  if (characters(d.got) > kValueMax || characters(d.there) > kValueMax) return d.key + " differs";
  return d.key + " is " + d.got + ", there " + d.there;
}

}  // namespace

std::string differences_of(const FinishedRun& run) {
  constexpr std::size_t kNamed = 4;
  const std::vector<Difference>& differs = run.differs;
  std::string text;
  for (std::size_t i = 0; i < std::min(differs.size(), kNamed); ++i) {
    text += (i == 0 ? "" : "; ") + difference_text(differs[i]);
  }
  if (differs.size() > kNamed) text += "; and " + std::to_string(differs.size() - kNamed) + " more keys";
  return text;
}

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

std::optional<std::int64_t> iterations_of(const FinishedRun& run) {
  return run.finished && !run.lacks("iterations") ? std::optional(run.summary.iterations) : std::nullopt;
}

bool is_comparable(const FinishedRun& run) {
  return fault_of(run.summary).empty() && !lacks_phases(run) && run.differs.empty();
}

void make_printable(FinishedRun& run) {
  constexpr std::size_t kLineMax = 400;  // a reason has a path in it, and what a file says
  const auto clean = [](std::string& text) { text = fitted(printable(text), kLineMax); };
  RunSummary& s = run.summary;
  for (std::string* text : {&run.name, &s.status, &s.reason, &s.policy}) clean(*text);
  for (PolicyChange& change : s.switches) clean(change.policy);
  for (auto* const texts : {&s.lost, &s.returned, &s.late, &s.algorithms, &run.missing}) {
    for (std::string& text : *texts) clean(text);
  }
  for (Difference& difference : run.differs) {
    for (std::string* text : {&difference.key, &difference.got, &difference.there}) clean(*text);
  }
}

std::string status_of(const RunSummary& run) {
  std::string text = run.status;
  if (run.lost_nodes > 0) text += ", lost " + std::to_string(run.lost_nodes);
  return run.resumed_from ? text + ", resumed" : text;
}

std::vector<std::string> caveats_of(const FinishedRun& run) {
  std::vector<std::string> caveats = warnings_of(run);
  if (const auto& seed = run.summary.simulated_seed) {
    caveats.insert(caveats.begin(), "simulated with seed " + std::to_string(*seed));
  }
  return caveats;
}

std::string dropped_lines_of(const RunSummary& run) {
  if (run.lines_dropped <= 0) return "";
  if (run.lines_dropped == 1)
    return "1 line of the server's output and log was dropped, since nobody took it in time";
  return std::to_string(run.lines_dropped) +
         " lines of the server's output and log were dropped, since nobody took them in time";
}

std::string skipped_of(const RunSummary& run) {
  if (run.skipped <= 0) return "";
  return std::to_string(run.skipped) + " of " + std::to_string(run.iterations + run.skipped) +
         " iterations were skipped, since a loss or gradient was not finite";
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
                       std::to_string(run.workers.size()) +
                       (run.workers.size() == 1 ? " worker that reported" : " workers that reported"));
  }
  if (s.resumed_from) {
    warnings.push_back("resumed from version " + to_string(*s.resumed_from) +
                       ", so without changes: its phases, bytes and reads are of what came after that "
                       "alone, its total s of all");
  }
  if (const std::string skipped = skipped_of(s); !skipped.empty()) warnings.push_back(skipped);
  if (lacks_phases(run)) {
    warnings.push_back("its directory has the phases of " + std::to_string(run.workers.size()) + " of " +
                       std::to_string(s.workers()) + " workers, so without changes");
  }
  if (!run.differs.empty()) {
    warnings.push_back("other work than the first run's, so without changes: " + differences_of(run));
  }
  if (s.overruns > 0 && s.status != "invalid") {
    warnings.push_back(s.overruns == 1 ? "1 emulated step overran"
                                       : std::to_string(s.overruns) + " emulated steps overran");
  }
  if (const std::string dropped = dropped_lines_of(s); !dropped.empty()) warnings.push_back(dropped);
  for (const std::string& missing : run.missing) warnings.push_back(missing);
  return warnings;
}

}  // namespace paceline
