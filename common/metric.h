// Metric: what one iteration or one evaluation measured, as sums, so that those of several workers can be
// added.
#pragma once

#include <cstdint>
#include <optional>

namespace paceline {

struct Metric {
  static constexpr std::int64_t kNotCounted = -1;

  double loss_sum = 0.0;     // sum over samples of the loss (natural units of the task, e.g. nats)
  std::int64_t correct = 0;  // samples classified correctly; kNotCounted: of some of them nobody says
  std::int64_t samples = 0;  // mini-batch size actually used; > 0

  bool is_counted() const { return correct >= 0; }
  // Whether `correct` can be so, of these samples.
  bool counts_samples() const { return correct >= kNotCounted && correct <= samples; }

  Metric& operator+=(const Metric& other) {
    loss_sum += other.loss_sum;
    correct = is_counted() && other.is_counted() ? correct + other.correct : kNotCounted;
    samples += other.samples;
    return *this;
  }
  // What has been added since.
  friend Metric operator-(const Metric& later, const Metric& earlier) {
    const bool counted = later.is_counted() && earlier.is_counted();
    return {later.loss_sum - earlier.loss_sum, counted ? later.correct - earlier.correct : kNotCounted,
            later.samples - earlier.samples};
  }
};

// Means over the samples; nullopt: there are none, or nobody has counted them.
inline std::optional<double> loss_of(const Metric& metric) {
  if (metric.samples <= 0) return std::nullopt;
  return metric.loss_sum / static_cast<double>(metric.samples);
}
inline std::optional<double> accuracy_of(const Metric& metric) {  // 0..1
  if (metric.samples <= 0 || !metric.is_counted()) return std::nullopt;
  return static_cast<double>(metric.correct) / static_cast<double>(metric.samples);
}

}  // namespace paceline
