// Softmax cross-entropy, the end of every network: loss, hits and the gradient with respect to the logits.
//
//   loss of one sample    -log p[label],   p = softmax(logits)
//   d(mean loss)/d logit  (p - onehot(label)) / N
#pragma once

#include <cstdint>
#include <span>

#include "common/task/task.h"

namespace paceline {

// `logits` is N x classes, row-major, N = labels.size(), every label < classes. `difference` has the same
// shape and gets d(mean loss)/d logits; empty when it is not wanted. `correct` counts the samples whose label
// has the largest logit (the first of equals; none when a logit is NaN). Computed in double, with the largest
// logit subtracted first.
template <typename Real>
Metric softmax_cross_entropy(std::span<const Real> logits, std::span<const std::uint8_t> labels,
                             std::int64_t classes, std::span<Real> difference);

extern template Metric softmax_cross_entropy<float>(std::span<const float>, std::span<const std::uint8_t>,
                                                    std::int64_t, std::span<float>);
extern template Metric softmax_cross_entropy<double>(std::span<const double>, std::span<const std::uint8_t>,
                                                     std::int64_t, std::span<double>);

}  // namespace paceline
