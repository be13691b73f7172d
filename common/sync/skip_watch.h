// SkipWatch: whether a run that skips iterations without a finite gradient (on_nan: skip) still learns. It
// looks at the last W iterations that were done: a quarter of the run, but 10 to 100. A run that has diverged
// ends with a stretch of which more than `most` was skipped. A resumed run counts from its resumption.
//
// Worked example, most 0.5, 400 iterations, so W = 100: from iteration 250 on all are skipped; with the 51st
// of them more than half of the last 100 are, and the run ends, at iteration 301.
//
// Pure. Thread: one (the engine's).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace paceline::sync {

class SkipWatch {
 public:
  // No `most`: nothing is ever too much.
  SkipWatch(std::optional<double> most, std::int64_t total_iterations)
      : most_(most),
        last_(static_cast<std::size_t>(std::clamp<std::int64_t>(total_iterations / 4, 10, 100))) {}

  // An iteration is done. True: too many of the last ones were skipped.
  bool add(bool skipped) {
    if (!most_) return false;
    skipped_ += static_cast<std::int64_t>(skipped) - static_cast<std::int64_t>(last_[next_]);
    last_[next_] = skipped;
    next_ = (next_ + 1) % last_.size();
    seen_ = std::min(seen_ + 1, last_.size());
    return seen_ == last_.size() && static_cast<double>(skipped_) > *most_ * static_cast<double>(seen_);
  }
  std::int64_t skipped() const { return skipped_; }  // of the last window()
  std::size_t window() const { return last_.size(); }

 private:
  std::optional<double> most_;
  std::vector<bool> last_;
  std::size_t next_ = 0;
  std::size_t seen_ = 0;
  std::int64_t skipped_ = 0;
};

}  // namespace paceline::sync
