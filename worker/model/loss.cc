#include "worker/model/loss.h"

#include <cmath>

namespace paceline {

template <typename Real>
Metric softmax_cross_entropy(std::span<const Real> logits, std::span<const std::uint8_t> labels,
                             std::int64_t classes, std::span<Real> difference) {
  Metric metric;
  metric.samples = static_cast<std::int64_t>(labels.size());
  const double scale = 1.0 / static_cast<double>(labels.size());
  for (std::size_t n = 0; n < labels.size(); ++n) {
    const Real* row = logits.data() + static_cast<std::int64_t>(n) * classes;
    std::int64_t best = 0;
    bool is_number = true;
    for (std::int64_t k = 0; k < classes; ++k) {
      if (row[k] > row[best]) best = k;
      is_number = is_number && !std::isnan(row[k]);
    }
    const double largest = row[best];
    double sum = 0.0;
    for (std::int64_t k = 0; k < classes; ++k) sum += std::exp(row[k] - largest);
    metric.loss_sum += std::log(sum) + largest - row[labels[n]];
    if (is_number && best == labels[n]) ++metric.correct;
    if (difference.empty()) continue;
    Real* out = difference.data() + static_cast<std::int64_t>(n) * classes;
    for (std::int64_t k = 0; k < classes; ++k) {
      const double p = std::exp(row[k] - largest) / sum;
      out[k] = static_cast<Real>((p - (k == labels[n] ? 1.0 : 0.0)) * scale);
    }
  }
  return metric;
}

template Metric softmax_cross_entropy<float>(std::span<const float>, std::span<const std::uint8_t>,
                                             std::int64_t, std::span<float>);
template Metric softmax_cross_entropy<double>(std::span<const double>, std::span<const std::uint8_t>,
                                              std::int64_t, std::span<double>);

}  // namespace paceline
