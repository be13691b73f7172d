// Softmax cross-entropy, the end of every network: loss, hits and the gradient with respect to the logits.
//
//   loss of one sample    - sum over k of t[k] log p[k],   p = softmax(logits)
//   d(mean loss)/d logit  (p - t) / N
//
// The target t is 1 at the label. With smoothed labels it is e / classes everywhere and 1 - e more at the label
// (Szegedy et al., "Rethinking the Inception architecture", 2016, section 7; as PyTorch's label_smoothing):
//
//   4 classes, e 0.2, label 1     t = 0.05, 0.85, 0.05, 0.05
#pragma once

#include <cstdint>
#include <span>

#include "common/label.h"
#include "common/task/task.h"

namespace paceline {

// `logits` is N x classes, row-major, N = labels.size(), every label < classes. `difference` has the same
// shape and gets d(mean loss)/d logits; empty when it is not wanted. `correct` counts the samples whose label
// has the largest logit (the first of equals; none when a logit is NaN). Computed in double, with the largest
// logit subtracted first. `smoothing`: e, in [0, 1); for training.
template <typename Real>
Metric softmax_cross_entropy(std::span<const Real> logits, std::span<const Label> labels,
                             std::int64_t classes, std::span<Real> difference, double smoothing = 0.0);

extern template Metric softmax_cross_entropy<float>(std::span<const float>, std::span<const Label>,
                                                    std::int64_t, std::span<float>, double);
extern template Metric softmax_cross_entropy<double>(std::span<const double>, std::span<const Label>,
                                                     std::int64_t, std::span<double>, double);

}  // namespace paceline
