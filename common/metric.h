// Metric: what one iteration or one evaluation measured, as sums, so that those of several workers can be
// added.
#pragma once

#include <cstdint>
#include <optional>

namespace paceline {

struct Metric {
  double loss_sum = 0.0;     // sum over samples of the loss (natural units of the task, e.g. nats)
  std::int64_t correct = 0;  // samples classified correctly
  std::int64_t samples = 0;  // mini-batch size actually used; > 0

  Metric& operator+=(const Metric& other) {
    loss_sum += other.loss_sum;
    correct += other.correct;
    samples += other.samples;
    return *this;
  }
  // What has been added since.
  friend Metric operator-(const Metric& later, const Metric& earlier) {
    return {later.loss_sum - earlier.loss_sum, later.correct - earlier.correct,
            later.samples - earlier.samples};
  }
};

// Means over the samples; nullopt: there are none.
inline std::optional<double> loss_of(const Metric& metric) {
  if (metric.samples <= 0) return std::nullopt;
  return metric.loss_sum / static_cast<double>(metric.samples);
}
inline std::optional<double> accuracy_of(const Metric& metric) {  // 0..1
  if (metric.samples <= 0) return std::nullopt;
  return static_cast<double>(metric.correct) / static_cast<double>(metric.samples);
}

}  // namespace paceline
