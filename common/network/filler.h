// What a tensor begins with: Caffe's fillers (include/caffe/filler.hpp) and the usual one, drawn from the
// run's seed. Other numbers than Caffe's, of the same distributions.
#pragma once

#include <cstdint>
#include <span>

#include "common/config/layer_config.h"
#include "common/random.h"

namespace paceline {

// Of a weight: what one output is a sum of, and what one input goes into. Caffe: size / shape[0] and size /
// shape[1].
struct Fans {
  double in = 1.0;
  double out = 1.0;
  double outputs = 1.0;  // shape[0]
};

// Fills `values` (float32). `filler` is not kUsual.
void fill(const FillerConfig& filler, const Fans& fans, CounterRandom random, std::span<float> values);

}  // namespace paceline
