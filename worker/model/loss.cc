#include "worker/model/loss.h"

#include "worker/model/loss_row.h"

namespace paceline {

template <typename Real>
Metric softmax_cross_entropy(std::span<const Real> logits, std::span<const Label> labels,
                             std::int64_t classes, std::span<Real> difference, double smoothing) {
  Metric metric;
  metric.samples = static_cast<std::int64_t>(labels.size());
  const double scale = 1.0 / static_cast<double>(labels.size());
  for (std::size_t n = 0; n < labels.size(); ++n) {
    const std::int64_t first = static_cast<std::int64_t>(n) * classes;
    const RowLoss row = softmax_row<Real>(logits.data() + first, labels[n], classes, smoothing, scale,
                                          difference.empty() ? nullptr : difference.data() + first);
    metric.loss_sum += row.loss;
    if (row.correct) ++metric.correct;
  }
  return metric;
}

template Metric softmax_cross_entropy<float>(std::span<const float>, std::span<const Label>, std::int64_t,
                                             std::span<float>, double);
template Metric softmax_cross_entropy<double>(std::span<const double>, std::span<const Label>, std::int64_t,
                                              std::span<double>, double);

}  // namespace paceline
