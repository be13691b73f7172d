// LossScale: what of float16's loss scaling (worker/model/loss_scaler.h) is state of a run. Each worker has one of its
// own, says it with each report, and is told it with each grant: so who resumes a run, or takes a lost worker's place,
// goes on with it. The authority keeps it, and a checkpoint does.
#pragma once

#include <cmath>
#include <cstdint>

namespace paceline {

struct LossScale {
  static constexpr double kLargest = 16777216.0;  // which float32 gradients stand
  static constexpr std::int64_t kGrowthInterval = 2000;

  double scale = 0.0;           // a power of two; 0: there is none
  std::int64_t good_steps = 0;  // since it changed

  bool operator==(const LossScale&) const = default;
  // Whether it can be one, or is none.
  bool is_valid() const {
    int exponent = 0;
    if (scale == 0.0) return good_steps == 0;
    return scale >= 1.0 && scale <= kLargest && std::frexp(scale, &exponent) == 0.5 && good_steps >= 0 &&
           good_steps < kGrowthInterval;
  }
};

}  // namespace paceline
