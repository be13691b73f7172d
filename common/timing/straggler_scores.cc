#include "common/timing/straggler_scores.h"

#include <algorithm>

namespace paceline {

void StragglerScores::took(Rank worker, std::chrono::nanoseconds time) {
  Worker& w = workers_[worker.value];
  // A week: the sum of a window of them is far from the end of its type.
  constexpr std::int64_t kLongest = std::chrono::nanoseconds(std::chrono::hours(24 * 7)).count();
  const std::int64_t ns = std::clamp<std::int64_t>(time.count(), 1, kLongest);
  std::int64_t& oldest = w.times[w.seen % kWindow];
  w.sum += ns - oldest;
  oldest = ns;
  ++w.seen;
  if (w.known() && (w.best == 0 || w.sum < w.best)) w.best = w.sum;
}

std::vector<std::optional<StragglerScore>> StragglerScores::scores() const {
  std::int64_t fastest = 0;
  for (const Worker& w : workers_) {
    if (w.known() && (fastest == 0 || w.sum < fastest)) fastest = w.sum;
  }
  std::vector<std::optional<StragglerScore>> scores(workers_.size());
  for (std::size_t r = 0; r < workers_.size(); ++r) {
    const Worker& w = workers_[r];
    if (!w.known()) continue;
    const auto sum = static_cast<double>(w.sum);
    scores[r] = {static_cast<double>(fastest) / sum, static_cast<double>(w.best) / sum,
                 sum * 1e-9 / static_cast<double>(kWindow)};
  }
  return scores;
}

std::vector<Rank> StragglerWarnings::fallen(const std::vector<std::optional<StragglerScore>>& scores) {
  std::vector<Rank> found;
  for (std::uint32_t r = 0; r < scores.size(); ++r) {
    if (!scores[r]) {
      fallen_[r] = false;  // gone; where it comes back it may fall again
    } else if (!fallen_[r] && scores[r]->lower() < limit_) {
      fallen_[r] = true;
      found.push_back(Rank(r));
    } else if (scores[r]->lower() >= limit_ + kAgain * (1.0 - limit_)) {
      fallen_[r] = false;
    }
  }
  return found;
}

}  // namespace paceline
