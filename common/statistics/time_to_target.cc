#include "common/statistics/time_to_target.h"

namespace paceline::statistics {
namespace {

// Accuracies that are the target three times may add up to less.
constexpr double kRounding = 1e-12;

}  // namespace

std::optional<double> time_to_target(std::span<const Evaluation> evaluations, double target) {
  for (std::size_t last = kEvaluationsAveraged - 1; last < evaluations.size(); ++last) {
    double sum = 0.0;
    for (std::size_t k = 0; k < kEvaluationsAveraged; ++k) sum += evaluations[last - k].accuracy;
    if (sum / static_cast<double>(kEvaluationsAveraged) >= target * (1.0 - kRounding))
      return evaluations[last].seconds;
  }
  return std::nullopt;
}

}  // namespace paceline::statistics
