// Time to accuracy: the first instant at which the mean of three successive evaluations reaches the target.
// One evaluation that is lucky does not count; a run that never gets there has no such time (it is censored,
// verdict.h).
#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace paceline::statistics {

inline constexpr std::size_t kEvaluationsAveraged = 3;

struct Evaluation {
  double seconds = 0.0;  // since the first grant, when the evaluated parameters were reached
  double accuracy = 0.0;
};

// The instant of the third of them. `evaluations`: in the order of time.
std::optional<double> time_to_target(std::span<const Evaluation> evaluations, double target);

}  // namespace paceline::statistics
