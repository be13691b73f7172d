#include "sweep/speedup.h"

namespace paceline::sweep {

double naive_speedup(std::int64_t workers, double exchange) {
  return 1.0 / (1.0 / static_cast<double>(workers) + exchange);
}

std::optional<MeasuredTimes> measured_times(const RunSummary& run) {
  constexpr Phase kOfAnExchange[] = {Phase::kPsApplyGrads, Phase::kPsParam, Phase::kBarrier, Phase::kStep};
  double exchange = 0.0;
  double all = 0.0;
  for (const PhaseSum& phase : run.phases) all += phase.total_seconds;
  for (const Phase phase : kOfAnExchange) exchange += run[phase].total_seconds;
  // What the phases are of: a run's applied iterations leave out those that were skipped, and have those of before it
  // was resumed.
  const std::int64_t mini_batches = run[Phase::kComputeGrads].count;
  const std::int64_t rounds = run[Phase::kPsApplyGrads].count;
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
