// When local steps pay: SparkNet's model (Moritz, Nishihara, Stoica and Jordan, "SparkNet: training deep
// networks in Spark", ICLR 2016, section 3.1). Pure.
//
//   C        how long one mini-batch takes
//   S        how long one exchange takes; here in units of C
//   N_a      mini-batches that one worker alone needs to reach the accuracy a
//   M_a      rounds that K workers with tau local steps need
//
//   naive    a mini-batch is cut into K parts, and gradients are exchanged each time:   C / (C / K + S)
//   rounds   N_a C / ((tau C + S) M_a)         without any cost of exchanges the gain:  N_a / (tau M_a)
//
// Worked example, K = 5: N_a = 1000; tau = 10 needs 40 rounds, tau = 50 needs 10.
//   gain    10: 2.5    50: 2
//   S = 1   naive 0.83    10: 1000 / (11 x 40) = 2.27    50: 1000 / (51 x 10) = 1.96    best: 10
//   S = 50  naive 0.02    10: 1000 / (60 x 40) = 0.42    50: 1000 / (100 x 10) = 1      best: 50
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "common/report/curve.h"
#include "common/report/phases_csv.h"

namespace paceline::sweep {

// How many rounds a run needed; none: it never reached the accuracy.
struct RoundsNeeded {
  std::int64_t workers = 1;
  std::int64_t local_steps = 1;
  std::optional<std::int64_t> rounds;
  // Nothing was evaluated before, so it may have needed far fewer.
  bool at_first_evaluation = false;
};

// What a run's evaluations say of when it reached the accuracy `target`.
struct Evaluated {
  std::optional<std::int64_t> rounds;  // the first version that did
  bool at_first = false;  // and none was evaluated before it but that of the start; nor is it the first one
  double best = 0.0;      // accuracy
};
Evaluated evaluated(std::span<const CurveRow> curve, double target);

double naive_speedup(std::int64_t workers, double exchange);

// What a finished run's workers say of C and S, in seconds; S with what they waited for each other. Of each
// phase of a worker the longest tenth is left out: the first mini-batch, which warms up, is most of a short run's mean.
struct MeasuredTimes {
  double mini_batch = 0.0;
  double exchange = 0.0;
};
// nullopt: its workers report no round.
std::optional<MeasuredTimes> measured_times(std::span<const WorkerPhases> workers);

// N_a of these runs: that of one worker with one local step; nullopt: there is none, or it never got there.
std::optional<std::int64_t> serial_mini_batches(std::span<const RoundsNeeded> runs);

// Whether it never got there although of `iterations`, which all workers of a run share, each had as many mini-batches
// as one worker alone needed.
bool without_gain(std::int64_t serial, const RoundsNeeded& run, std::int64_t iterations);

// What runs that never got there lacked: how many `iterations` give each worker of the largest of them as
// many mini-batches as one worker alone needed; nullopt: each of them had so many.
std::optional<std::int64_t> iterations_lacking(std::int64_t serial, std::span<const RoundsNeeded> runs,
                                               std::int64_t iterations);

// Against `serial` mini-batches of one worker; nullopt where the run never got there. With `exchange` 0 it is
// the gain.
std::optional<double> speedup(std::int64_t serial, const RoundsNeeded& run, double exchange);

// The run of `workers` with the largest speed-up, of equal ones the first; nullptr: none got there.
const RoundsNeeded* best_run(std::int64_t serial, std::span<const RoundsNeeded> runs, std::int64_t workers,
                             double exchange);

}  // namespace paceline::sweep
