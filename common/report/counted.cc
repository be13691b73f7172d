#include "common/report/counted.h"

#include <algorithm>
#include <map>

namespace paceline {

namespace {

enum class Resumed { kIsAFault, kIsNone };

std::string fault(const RunSummary& run, Resumed resumed) {
  if (run.status != "ok") return run.status + (run.reason.empty() ? "" : " (" + run.reason + ")");
  if (run.resumed_from && resumed == Resumed::kIsAFault) return "resumed";
  return run.lost_nodes > 0 ? std::to_string(run.lost_nodes) + " nodes lost" : "";
}

}  // namespace

// Its seconds leave out what was done twice, and its phases are of the last part alone.
std::string fault_of(const RunSummary& run) { return fault(run, Resumed::kIsAFault); }

std::string fault_of_learning(const RunSummary& run) {
  return fault(run, run.policy == "bsp" ? Resumed::kIsNone : Resumed::kIsAFault);
}

std::string unfinished(const RunSummary& run, std::int64_t total_iterations, Share share) {
  const bool replaced = run.policy == "backup" && share == Share::kEven;
  const std::int64_t done = run.iterations + (replaced ? 0 : run.skipped);
  if (done >= total_iterations) return "";
  return std::to_string(done) + " of " + std::to_string(total_iterations) + " iterations";
}

void set_iterations(RunSummary& summary, const sync::Engine& engine, std::int64_t local_steps) {
  summary.iterations = engine.iterations_applied() * local_steps;
  // Else what is not finite ends the run.
  const bool skips = engine.config().on_nan == OnNan::kSkip;
  summary.skipped = skips ? engine.iterations_skipped() * local_steps : 0;
  summary.iterations_lost = engine.iterations_lost() * local_steps;
  summary.iterations_undone = iterations_undone(engine) * local_steps;
  summary.dropped = engine.iterations_dropped() * local_steps;
  if (local_steps > 1) summary.rounds = engine.iterations_applied();
}

std::size_t stage_at(std::span<const PolicyChange> switches, Version version) {
  const auto later = std::find_if(switches.begin(), switches.end(),
                                  [version](const PolicyChange& change) { return change.version > version; });
  return static_cast<std::size_t>(std::max<std::ptrdiff_t>(1, later - switches.begin()) - 1);
}

AccuracyOf accuracy_in(std::span<const CurveRow> curve) {
  const bool tested = std::any_of(curve.begin(), curve.end(),
                                  [](const CurveRow& row) { return row.test_accuracy.has_value(); });
  return tested ? AccuracyOf::kTest : AccuracyOf::kTraining;
}

std::vector<statistics::Evaluation> evaluations(std::span<const CurveRow> curve, AccuracyOf kind) {
  const auto accuracy = kind == AccuracyOf::kTest ? &CurveRow::test_accuracy : &CurveRow::train_accuracy;
  std::map<Version, statistics::Evaluation> by_version;
  for (const CurveRow& row : curve) {
    if (row.*accuracy) {
      by_version.try_emplace(row.version, statistics::Evaluation{row.seconds, *(row.*accuracy)});
    }
  }
  std::vector<statistics::Evaluation> all;
  for (const auto& [version, evaluation] : by_version) all.push_back(evaluation);
  return all;
}

}  // namespace paceline
