// How well training goes where no gradient is computed: the training metric of an iteration as a function of
// the samples that its parameters had learned from. Assumed, not simulated: staleness does not make it worse.
//
//   parametric   accuracy(n) = initial + (final - initial) n / (n + half)        0.1 -> 0.8, half 100,000:
//                n = 0: 0.1     n = 100,000: 0.45     n = 300,000: 0.625
//   recorded     straight lines between the rows of a file "samples,accuracy,loss"; after the last, the last
//
// With noise `binomial` each of a mini-batch's samples is right with probability accuracy(n), so a window of
// N samples has the standard deviation sqrt(p (1 - p) / N) that a real one has at least; losses are normal.
#pragma once

#include <cstdint>
#include <memory>

#include "common/clock.h"
#include "common/config/run_config.h"
#include "common/ids.h"
#include "common/metric.h"
#include "common/random.h"
#include "common/status.h"

namespace paceline::simulate {

class MetricModel {
 public:
  virtual ~MetricModel() = default;
  // Of the mini-batch, of `batch` samples, of the iteration stamped `clock`, computed with parameters that
  // `samples` samples are in.
  virtual Metric measure(Rank worker, Clock clock, std::int64_t samples, std::int64_t batch) const = 0;
};

// As simulate.metric says; nullptr where it says nothing. Errors: the curve's file is missing (kNotFound) or
// no curve (kDataLoss, kInvalidArgument), naming file, line, got and expected.
Result<std::unique_ptr<MetricModel>> make_metric_model(const RunConfig& config);

// The number of successes among `trials` >= 0 of probability p: exact, by inversion of the distribution.
std::int64_t binomial_draw(std::int64_t trials, double p, CounterRandom& random);

}  // namespace paceline::simulate
