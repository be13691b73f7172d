// Verdict: which policy is better, and when nobody may say so. Every pair of policies is compared, seed by
// seed, and all pairs of one table are corrected together (holm.h).
//
//   better        the pair's corrected p is below 0.05. The interval is of the pair alone: among many pairs
//                 one interval may exclude 0 and the pair yet be undecided
//   equivalent    the 95 % interval of the difference lies inside the margin that a reader would not care
//                 about; a difference may be certain and as small as that, then both are said
//   undecided     neither: more seeds, or a larger difference
//   no scatter    the difference is the same with each seed, but for rounding (constant computations in a
//                 simulator, runs that are copies): the seeds draw nothing, so they are one run each, and how
//                 likely such a difference would be by chance cannot be said: no p, no winner, no equivalence
//   too few seeds fewer than five of both: figures, but no verdict
//   censored      a run of either has no number (it never reached the target, it failed): what would be
//                 compared are only the runs that did well, so neither is called better or equivalent
//
// The winner of a table is the policy that is better than every other; there is at most one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/statistics/paired.h"

namespace paceline::statistics {

inline constexpr std::size_t kSeedsMin = 5;

// One run's number; none where it is censored.
struct Observation {
  std::uint64_t seed = 0;
  std::optional<double> value;
};
// The runs of one policy, seeds ascending, each once.
using Sample = std::vector<Observation>;

enum class Better { kSmaller, kLarger };
enum class Verdict {
  kTooFewSeeds,
  kCensored,
  kNoScatter,
  kUndecided,
  kEquivalent,
  kFirstIsBetter,
  kSecondIsBetter
};

// Two samples, by their places among those compared; first < second.
struct Comparison {
  std::size_t first = 0;
  std::size_t second = 0;
  Estimate difference;    // second - first, over the seeds of which both have a number
  double first_mean = 0;  // of the first, over the same seeds: what the difference is a part of
  // Whether the differences of two seeds or more are other than equal. Where they are not, there is no p: it
  // is out of Holm's correction, difference.p and adjusted_p mean nothing.
  bool scatters = true;
  double adjusted_p = 1;  // Holm's, over all pairs that scatter
  Verdict verdict = Verdict::kUndecided;
  bool inside_margin = false;  // the interval lies inside +-margin; false where there is none
};

// Every pair, in the order (0, 1), (0, 2), ..., (1, 2), ... `margin`: of equivalence, in the values' unit.
std::vector<Comparison> compare_pairs(std::span<const Sample> samples, Better better,
                                      std::optional<double> margin = {});

// Which of `samples` is better than every other, out of what compare_pairs() says of them.
std::optional<std::size_t> winner(std::size_t samples, std::span<const Comparison> comparisons);

// The values that are there, in the order of the seeds.
std::vector<double> values_of(const Sample& sample);
bool has_censored(const Sample& sample);

}  // namespace paceline::statistics
