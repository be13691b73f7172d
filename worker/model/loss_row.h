// Softmax cross-entropy of one sample: what loss.cc does for each sample in turn and a GPU for all at once.
// loss.h has the formulas.
#pragma once

#include <cmath>
#include <cstdint>

#include "common/host_device.h"

namespace paceline {

struct RowLoss {
  double loss;   // nats
  bool correct;  // the label has the largest logit (the first of equals), and no logit is NaN
};

// As a double, which every comparison and sum is made in. A type of less than 32 bits is a GPU's, and
// converts to float alone.
template <typename Real>
PACELINE_HOST_DEVICE double widened(Real value) {
  if constexpr (sizeof(Real) < sizeof(float)) {
    return static_cast<double>(static_cast<float>(value));
  } else {
    return static_cast<double>(value);
  }
}

// `logits` has `classes` elements, label < classes. `difference`, where it is not null, gets
// (softmax - target) * scale. NaN and infinity go through.
template <typename Real>
PACELINE_HOST_DEVICE RowLoss softmax_row(const Real* logits, std::int64_t label, std::int64_t classes,
                                         double smoothing, double scale, Real* difference) {
  std::int64_t best = 0;
  bool is_number = true;
  for (std::int64_t k = 0; k < classes; ++k) {
    const double value = widened(logits[k]);
    if (value > widened(logits[best])) best = k;
    is_number = is_number && !std::isnan(value);
  }
  const double largest = widened(logits[best]);
  double sum = 0.0;
  for (std::int64_t k = 0; k < classes; ++k) sum += std::exp(widened(logits[k]) - largest);
  double aimed_at = widened(logits[label]);  // the mean of the logits under the target
  if (smoothing > 0.0) {
    double all = 0.0;
    for (std::int64_t k = 0; k < classes; ++k) all += widened(logits[k]);
    aimed_at = (1.0 - smoothing) * aimed_at + smoothing * all / static_cast<double>(classes);
  }
  const RowLoss row{std::log(sum) + largest - aimed_at, is_number && best == label};
  if (difference == nullptr) return row;
  for (std::int64_t k = 0; k < classes; ++k) {
    const double p = std::exp(widened(logits[k]) - largest) / sum;
    const double target = smoothing / static_cast<double>(classes) + (k == label ? 1.0 - smoothing : 0.0);
    difference[k] = static_cast<Real>((p - target) * scale);
  }
  return row;
}

}  // namespace paceline
