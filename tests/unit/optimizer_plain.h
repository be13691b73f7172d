// The optimizers as the formulas in common/params/optimizer.h say them, one element after another: the truth
// that the vectorised loops are compared with, bit for bit.
#pragma once

#include <cstdint>
#include <vector>

#include "common/config/optimizer_section.h"

namespace paceline::testing {

struct PlainOptimizer {
  PlainOptimizer(const OptimizerSection& section, std::size_t size)
      : settings(section), first(size, 0.0F), second(size, 0.0F) {}

  void apply(std::vector<float>& parameters, const std::vector<float>& gradient, double learning_rate);

  OptimizerSection settings;
  std::vector<float> first, second;
  int steps = 0;
};

}  // namespace paceline::testing
