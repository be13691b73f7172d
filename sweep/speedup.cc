#include "sweep/speedup.h"

#include <algorithm>

#include "common/timing/histogram.h"

namespace paceline::sweep {
namespace {

// As if each time had taken the mean of all but the longest tenth; as it is where only the sum is known.
double trimmed_seconds(const PhaseStat& phase) {
  const std::int64_t kept = std::max<std::int64_t>(phase.count - (phase.count + 9) / 10, 1);
  std::int64_t left = kept;
  double ns = 0.0;
  for (const auto& [bucket, count] : phase.histogram) {
    const std::int64_t taken = std::min(count, left);
    ns += static_cast<double>(taken) * static_cast<double>(histogram_middle_ns(bucket));
    left -= taken;
  }
  if (phase.histogram.empty()) return 1e-9 * static_cast<double>(phase.total_ns);
  return 1e-9 * ns / static_cast<double>(kept) * static_cast<double>(phase.count);
}

}  // namespace

Evaluated evaluated(std::span<const CurveRow> curve, double target) {
  Evaluated all;
  std::optional<std::int64_t> first;
  for (const CurveRow& row : curve) {
    if (!row.test_accuracy) continue;
    const std::int64_t version = row.version.value;
    all.best = std::max(all.best, *row.test_accuracy);
    if (version > 0) first = std::min(first.value_or(version), version);
    if (*row.test_accuracy >= target) all.rounds = std::min(all.rounds.value_or(version), version);
  }
  all.at_first = all.rounds.value_or(0) > 1 && all.rounds == first;
  return all;
}

double naive_speedup(std::int64_t workers, double exchange) {
  return 1.0 / (1.0 / static_cast<double>(workers) + exchange);
}

std::optional<MeasuredTimes> measured_times(std::span<const WorkerPhases> workers) {
  constexpr Phase kOfAnExchange[] = {Phase::kPsApplyGrads, Phase::kPsParam, Phase::kBarrier, Phase::kStep};
  double exchange = 0.0;
  double all = 0.0;
  // What the phases are of: a run's applied iterations leave out those that were skipped, and have those of before it
  // was resumed.
  std::int64_t mini_batches = 0;
  std::int64_t rounds = 0;
  for (const WorkerPhases& worker : workers) {
    for (const PhaseStat& phase : worker.totals.phases) all += trimmed_seconds(phase);
    for (const Phase phase : kOfAnExchange) exchange += trimmed_seconds(worker.totals[phase]);
    mini_batches += worker.totals[Phase::kComputeGrads].count;
    rounds += worker.totals[Phase::kPsApplyGrads].count;
  }
  if (mini_batches == 0 || rounds == 0 || all <= exchange) return std::nullopt;
  return MeasuredTimes{(all - exchange) / static_cast<double>(mini_batches),
                       exchange / static_cast<double>(rounds)};
}

std::optional<std::int64_t> serial_mini_batches(std::span<const RoundsNeeded> runs) {
  for (const RoundsNeeded& run : runs) {
    if (run.workers == 1 && run.local_steps == 1) return run.rounds;
  }
  return std::nullopt;
}

bool without_gain(std::int64_t serial, const RoundsNeeded& run, std::int64_t iterations) {
  return !run.rounds && run.workers * serial <= iterations;
}

std::optional<std::int64_t> iterations_lacking(std::int64_t serial, std::span<const RoundsNeeded> runs,
                                               std::int64_t iterations) {
  std::int64_t needed = iterations;
  for (const RoundsNeeded& run : runs) {
    if (!run.rounds) needed = std::max(needed, run.workers * serial);
  }
  return needed == iterations ? std::nullopt : std::optional(needed);
}

std::optional<double> speedup(std::int64_t serial, const RoundsNeeded& run, double exchange) {
  if (!run.rounds) return std::nullopt;
  const double round = static_cast<double>(run.local_steps) + exchange;
  return static_cast<double>(serial) / (round * static_cast<double>(*run.rounds));
}

const RoundsNeeded* best_run(std::int64_t serial, std::span<const RoundsNeeded> runs, std::int64_t workers,
                             double exchange) {
  const RoundsNeeded* best = nullptr;
  for (const RoundsNeeded& run : runs) {
    if (run.workers != workers || !run.rounds) continue;
    if (best == nullptr || *speedup(serial, run, exchange) > *speedup(serial, *best, exchange)) best = &run;
  }
  return best;
}

}  // namespace paceline::sweep
