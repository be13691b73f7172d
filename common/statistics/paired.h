// Paired: what several runs of two policies say of the difference between them, when each seed was run under
// both. The seed decides the initial parameters, the order of the samples and the jitter of the machines, so
// two runs of one seed share what chance contributes, and their difference scatters less than either.
//
//   d_i = second_i - first_i of the i-th seed          mean(d) +- t(0.975; n - 1) * s(d) / sqrt(n)
//
// Student 1908, "The probable error of a mean", whose sleep data are this file's test. Assumed: the
// differences of seeds are independent, and close enough to normal for their mean to be.
#pragma once

#include <cstddef>
#include <span>

namespace paceline::statistics {

// The share of such intervals that hold the true mean.
inline constexpr double kConfidence = 0.95;

struct Estimate {
  std::size_t n = 0;
  double mean = 0.0;
  // Half the width of the interval around the mean; infinite for fewer than two numbers.
  double half_width = 0.0;
  // How likely a mean at least this far from 0 is where the true one is 0; two-sided. 1 for fewer than two
  // numbers. Where all numbers are equal 0, or 1 if they are 0: such numbers do not scatter.
  double p = 1.0;

  // Whether there is an interval: of two numbers or more that differ by more than rounding. Copies of one
  // number are no sample, and what their mean may be off by is not known.
  bool has_interval() const;
  double low() const { return mean - half_width; }
  double high() const { return mean + half_width; }
};

// Of the mean that `numbers` were drawn from. Numbers are finite. n = 0: mean 0, half width infinite.
Estimate estimate(std::span<const double> numbers);

// The t that a share `probability` of Student's distribution with `degrees` >= 1 of freedom lies below.
double t_quantile(double probability, double degrees);

}  // namespace paceline::statistics
