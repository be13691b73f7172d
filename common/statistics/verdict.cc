#include "common/statistics/verdict.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/statistics/holm.h"

namespace paceline::statistics {
namespace {

constexpr double kSignificant = 1.0 - kConfidence;

// What a seed gave under both.
struct Pair {
  double first = 0.0, second = 0.0;
};

std::vector<Pair> pairs_of(const Sample& first, const Sample& second) {
  std::vector<Pair> all;
  auto b = second.begin();
  for (const Observation& a : first) {
    while (b != second.end() && b->seed < a.seed) ++b;
    if (b == second.end()) break;
    if (b->seed == a.seed && a.value && b->value) all.push_back({*a.value, *b->value});
  }
  return all;
}

// Whether the differences are other than equal, but for what the last bits of the numbers make of them.
bool scatter(std::span<const Pair> pairs) {
  if (pairs.size() < 2) return true;
  double low = std::numeric_limits<double>::infinity(), high = -low, largest = 0.0;
  for (const auto& [first, second] : pairs) {
    low = std::min(low, second - first);
    high = std::max(high, second - first);
    largest = std::max({largest, std::abs(first), std::abs(second)});
  }
  return high - low > 8 * std::numeric_limits<double>::epsilon() * largest;
}

Comparison compared(std::size_t i, std::size_t j, std::span<const Pair> pairs) {
  Comparison c;
  c.first = i;
  c.second = j;
  std::vector<double> differences;
  for (const auto& [first, second] : pairs) {
    differences.push_back(second - first);
    c.first_mean += first / static_cast<double>(pairs.size());
  }
  c.difference = estimate(differences);
  c.scatters = scatter(pairs);
  return c;
}

Verdict verdict_of(const Comparison& c, bool censored, Better better) {
  if (censored) return Verdict::kCensored;
  if (c.difference.n < kSeedsMin) return Verdict::kTooFewSeeds;
  if (!c.scatters) return Verdict::kNoScatter;
  if (c.adjusted_p < kSignificant) {
    const bool second_is_smaller = c.difference.mean < 0.0;
    return second_is_smaller == (better == Better::kSmaller) ? Verdict::kSecondIsBetter
                                                             : Verdict::kFirstIsBetter;
  }
  return c.inside_margin ? Verdict::kEquivalent : Verdict::kUndecided;
}

}  // namespace

std::vector<double> values_of(const Sample& sample) {
  std::vector<double> values;
  for (const Observation& o : sample) {
    if (o.value) values.push_back(*o.value);
  }
  return values;
}

bool has_censored(const Sample& sample) {
  return std::any_of(sample.begin(), sample.end(), [](const Observation& o) { return !o.value; });
}

std::vector<Comparison> compare_pairs(std::span<const Sample> samples, Better better,
                                      std::optional<double> margin) {
  std::vector<Comparison> comparisons;
  std::vector<double> p;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    for (std::size_t j = i + 1; j < samples.size(); ++j) {
      Comparison c = compared(i, j, pairs_of(samples[i], samples[j]));
      c.inside_margin =
          margin && c.scatters && -*margin < c.difference.low() && c.difference.high() < *margin;
      if (c.scatters) p.push_back(c.difference.p);
      comparisons.push_back(c);
    }
  }
  const std::vector<double> adjusted = holm_adjusted(p);
  auto next = adjusted.begin();
  for (Comparison& c : comparisons) {
    if (c.scatters) c.adjusted_p = *next++;
    const bool censored = has_censored(samples[c.first]) || has_censored(samples[c.second]);
    c.verdict = verdict_of(c, censored, better);
  }
  return comparisons;
}

std::optional<std::size_t> winner(std::size_t samples, std::span<const Comparison> comparisons) {
  std::vector<std::size_t> wins(samples);
  for (const Comparison& c : comparisons) {
    if (c.verdict == Verdict::kFirstIsBetter) ++wins[c.first];
    if (c.verdict == Verdict::kSecondIsBetter) ++wins[c.second];
  }
  for (std::size_t i = 0; i < samples; ++i) {
    if (samples > 1 && wins[i] == samples - 1) return i;
  }
  return std::nullopt;
}

}  // namespace paceline::statistics
