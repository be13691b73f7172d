// The only file that sees Boost.Math.
#include "common/statistics/paired.h"

#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>

namespace paceline::statistics {
namespace {

// The root of the mean squared deviation, with n - 1.
double scatter(std::span<const double> numbers, double mean) {
  double squares = 0.0;
  for (const double x : numbers) squares += (x - mean) * (x - mean);
  return std::sqrt(squares / static_cast<double>(numbers.size() - 1));
}

}  // namespace

double t_quantile(double probability, double degrees) {
  return boost::math::quantile(boost::math::students_t(degrees), probability);
}

bool Estimate::has_interval() const {
  return std::isfinite(half_width) &&
         half_width > 8 * std::numeric_limits<double>::epsilon() * std::abs(mean);
}

Estimate estimate(std::span<const double> numbers) {
  Estimate e;
  e.n = numbers.size();
  e.half_width = std::numeric_limits<double>::infinity();
  if (e.n == 0) return e;
  const auto n = static_cast<double>(e.n);
  for (const double x : numbers) e.mean += x / n;
  if (e.n < 2) return e;
  const double error = scatter(numbers, e.mean) / std::sqrt(n);
  e.half_width = t_quantile(0.5 + kConfidence / 2, n - 1) * error;
  if (error == 0.0) {
    e.p = e.mean == 0.0 ? 1.0 : 0.0;
    return e;
  }
  const boost::math::students_t distribution(n - 1);
  e.p = 2 * boost::math::cdf(boost::math::complement(distribution, std::abs(e.mean) / error));
  return e;
}

}  // namespace paceline::statistics
