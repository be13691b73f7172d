// Counted: which finished runs say something about their policy, and the numbers that are read off a curve.
// One rule for `paceline report --compare` and for the tables of `paceline sweep`: a run that failed or ended
// early is no quick one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/report/curve.h"
#include "common/report/run_summary.h"
#include "common/statistics/time_to_target.h"
#include "common/sync/engine.h"
#include "common/sync/modes.h"

namespace paceline {

// Why the run says nothing about its policy: it is not "ok", it lost nodes, or was resumed. Empty: it does.
std::string fault_of(const RunSummary& run);
// The same of what it has learned alone: under bsp a resumed run decides as one that was never interrupted
// (docs/SYNC.md).
std::string fault_of_learning(const RunSummary& run);

// "512 of 1000 iterations" where a run did fewer than `total_iterations`; else empty. Its times are
// those of less work. Skipped ones (NaN) are done, but under policy backup with `share` even, where a clock
// waits for another gradient in the place of each (common/sync/work_share.h).
std::string unfinished(const RunSummary& run, std::int64_t total_iterations, Share share);

// What the core has counted, as iterations: its own are rounds of `local_steps` of them.
void set_iterations(RunSummary& summary, const sync::Engine& engine, std::int64_t local_steps);

// Which of sync.stages, the first being 0, is in force from `version` on: `switches` are all that have begun so far.
std::size_t stage_at(std::span<const PolicyChange> switches, Version version);

// Which accuracy a curve is read for.
enum class AccuracyOf { kTest, kTraining };

// Of tests where there is one, else of training: windows of the learning-progress rate, which is all that a
// simulated run in timing mode has.
AccuracyOf accuracy_in(std::span<const CurveRow> curve);

// The accuracies of that kind in the order of versions, each version once: rows of tests may come late, and
// the final model's may be the last one's again.
std::vector<statistics::Evaluation> evaluations(std::span<const CurveRow> curve, AccuracyOf kind);

}  // namespace paceline
