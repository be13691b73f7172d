// MeasuredNorms: what the batch norms of a stage have measured of a whole mini-batch, from what they measured of its
// micro-batches, by which they normalise (Huang et al. 2018, section 2.2). With n values of a channel in a micro-batch,
// its mean m and variance v (with n / (n - 1), as in Layer::running_variance), N = sum n:
//
//   mean = sum n m / N      variance = (sum ((n - 1) v + n m^2) - N mean^2) / (N - 1)
//
// They lie in the places of a gradient, and are scaled as one: the whole mini-batch counts samples / divisor times
// (stage_runner.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/network/stages.h"

namespace paceline {

// Thread: one at a time.
class MeasuredNorms {
 public:
  // `network` outlives it.
  MeasuredNorms(const NetworkSpec& network, const StageSpec& stage, std::int64_t samples,
                std::int64_t divisor);

  // A new mini-batch.
  void begin();
  // `gradient`: of a micro-batch of so many samples, of the stage's parameters.
  void add(std::int64_t samples, std::span<const float> gradient);
  // Into the places of `gradient`, whole, of the mini-batch; those of other parameters stay.
  void write(std::span<float> gradient) const;

 private:
  struct Channel {
    double sum = 0.0;      // of values
    double squares = 0.0;  // of values
  };
  struct Norm {
    const Layer* layer;
    std::vector<Channel> channels;
    double weight = 0.0;  // running_weight's measurement, by samples
  };
  std::span<const float> in(std::span<const float> gradient, const ParameterRange& range) const;

  const std::int64_t begin_;  // of the stage's parameters
  const double samples_;
  const double scale_;
  std::vector<Norm> norms_;
};

}  // namespace paceline
