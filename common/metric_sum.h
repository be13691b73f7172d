// MetricSum: a sum of Metrics that goes on, of which differences are taken. What nobody has counted is in it, and takes
// the accuracy of the differences that it is in, and of no other.
//
//   a + uncounted + b  -  (a + uncounted)  =  b, with its accuracy
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/metric.h"

namespace paceline {

class MetricSum {
 public:
  std::int64_t samples() const { return sum_.samples; }

  MetricSum& operator+=(const Metric& metric) {
    uncounted_ += metric.is_counted() ? 0 : metric.samples;
    sum_ += {metric.loss_sum, std::max<std::int64_t>(0, metric.correct), metric.samples};
    return *this;
  }
  // What has been added since.
  friend Metric operator-(const MetricSum& later, const MetricSum& earlier) {
    Metric since = later.sum_ - earlier.sum_;
    if (later.uncounted_ != earlier.uncounted_) since.correct = Metric::kNotCounted;
    return since;
  }

 private:
  Metric sum_;                  // `correct`: of those that are counted
  std::int64_t uncounted_ = 0;  // samples
};

}  // namespace paceline
