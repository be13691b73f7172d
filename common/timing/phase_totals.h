// What a training thread's phases add up to: the numbers that travel in the end-of-run report and become
// phases.csv.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/status.h"
#include "common/timing/phase_times.h"
#include "common/timing/phases.h"

namespace paceline {

// One phase of one worker. `histogram`: (bucket, count) of the durations, buckets as in
// common/timing/histogram.h, ascending and without empty ones.
struct PhaseStat {
  std::int64_t count = 0;
  std::int64_t total_ns = 0;
  std::int64_t hidden_ns = 0;  // ran in the shadow of computing: reported beside the phases, in none of them
  std::vector<std::pair<std::uint16_t, std::int64_t>> histogram;
};

// All phases of one worker. `wall_ns` runs from its first grant to its last reply and has its own pair of
// clock reads.
struct PhaseTotals {
  std::array<PhaseStat, kPhaseCount> phases;
  std::int64_t wall_ns = 0;

  PhaseStat& operator[](Phase p) { return phases[static_cast<std::size_t>(p)]; }
  const PhaseStat& operator[](Phase p) const { return phases[static_cast<std::size_t>(p)]; }
};

// Its times alone.
PhaseTimes times_of(const PhaseTotals& totals);

// Sums over workers: counts, times, walls and histograms add up, so that quantiles are those of all
// occurrences.
void merge(PhaseTotals& into, const PhaseTotals& from);

// wall - the sum of the phases: what no phase owns. It is to stay within 2 % of the wall.
std::int64_t unaccounted_ns(const PhaseTotals& totals);

// The duration that the share q of the phase's occurrences do not exceed, within 1.6 %; 0 when there were
// none. 0 <= q <= 1; 0.5 is the median.
std::int64_t quantile_ns(const PhaseStat& stat, double q);

// Whether totals that came over the network can be true: nothing negative, buckets ascending and in range,
// each histogram as many occurrences as its count. Errors: kInvalidArgument naming phase and field.
[[nodiscard]] Status check(const PhaseTotals& totals);

}  // namespace paceline
