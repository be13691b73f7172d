#include "common/timing/straggler_scores.h"

#include <algorithm>

namespace paceline {

void StragglerScores::took(Rank worker, std::chrono::nanoseconds time, std::int64_t samples) {
  Worker& w = workers_[worker.value];
  // A week: the sum of a window of them is far from the end of its type.
  constexpr std::int64_t kLongest = std::chrono::nanoseconds(std::chrono::hours(24 * 7)).count();
  constexpr std::int64_t kMostSamples = std::int64_t{1} << 40;
  const Worker::Iteration newest{std::clamp<std::int64_t>(time.count(), 1, kLongest),
                                 std::clamp<std::int64_t>(samples, 1, kMostSamples)};
  Worker::Iteration& oldest = w.window[w.seen % kWindow];
  w.sum.ns += newest.ns - oldest.ns;
  w.sum.samples += newest.samples - oldest.samples;
  oldest = newest;
  ++w.seen;
  if (w.known() && (w.best <= 0.0 || w.sample_ns() < w.best)) w.best = w.sample_ns();
}

std::vector<std::optional<StragglerScore>> StragglerScores::scores() const {
  std::vector<double> fastest(kinds_, 0.0);
  for (std::size_t r = 0; r < workers_.size(); ++r) {
    const Worker& w = workers_[r];
    double& of_kind = fastest[r % kinds_];
    if (w.known() && (of_kind <= 0.0 || w.sample_ns() < of_kind)) of_kind = w.sample_ns();
  }
  std::vector<std::optional<StragglerScore>> scores(workers_.size());
  for (std::size_t r = 0; r < workers_.size(); ++r) {
    const Worker& w = workers_[r];
    if (!w.known()) continue;
    scores[r] = {fastest[r % kinds_] / w.sample_ns(), w.best / w.sample_ns(),
                 static_cast<double>(w.sum.ns) * 1e-9 / static_cast<double>(kWindow)};
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
