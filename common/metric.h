// Metric: what one iteration or one evaluation measured, as sums, so that those of several workers can be
// added.
#pragma once

#include <cstdint>

namespace paceline {

struct Metric {
  double loss_sum = 0.0;     // sum over samples of the loss (natural units of the task, e.g. nats)
  std::int64_t correct = 0;  // samples classified correctly
  std::int64_t samples = 0;  // mini-batch size actually used; > 0
};

}  // namespace paceline
