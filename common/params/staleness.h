// Staleness-scaled learning rate: the older the parameters a gradient was computed with, the smaller its
// step. Zhang, Gupta, Lian and Liu, "Staleness-aware async-SGD for distributed deep learning", IJCAI 2016: a
// gradient of staleness t is applied with alpha / t, one of staleness 0 with alpha.
//
// t is the number of updates between the parameters that a gradient was computed with and its application,
// as the authority counts them (common/sync/actions.h, Contributor): the same number on every shard.
//
// Milder, for the deltas of rounds, which point into nearly orthogonal directions: alpha / sqrt(1 + t) (Liu et
// al., "Asynchronous local-SGD training for language modeling", 2024).
//
//   alpha 0.6, t    0    1    2    3    6
//   inverse        0.6  0.6  0.3  0.2  0.1
//   inverse_root   0.6  0.42 0.35 0.3  0.23
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "common/config/optimizer_section.h"

namespace paceline {

// What a gradient's step, or its weight in an average, is divided by. staleness >= 0.
inline double staleness_divisor(StalenessScaling scaling, std::int64_t staleness) {
  if (scaling == StalenessScaling::kNone) return 1.0;
  if (scaling == StalenessScaling::kInverseRoot) return std::sqrt(1.0 + static_cast<double>(staleness));
  return static_cast<double>(std::max<std::int64_t>(staleness, 1));
}

// A gradient's weight in the mean of several, before that is divided by all samples.
inline float staleness_weight(StalenessScaling scaling, std::int64_t samples, std::int64_t staleness) {
  return static_cast<float>(static_cast<double>(samples) / staleness_divisor(scaling, staleness));
}

}  // namespace paceline
