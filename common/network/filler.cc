#include "common/network/filler.h"

#include <algorithm>
#include <cmath>

#include "common/assert.h"

namespace paceline {
namespace {

double fan_of(FillerNorm norm, const Fans& fans) {
  switch (norm) {
    case FillerNorm::kFanIn:
      return fans.in;
    case FillerNorm::kFanOut:
      return fans.out;
    case FillerNorm::kAverage:
      return (fans.in + fans.out) / 2.0;
  }
  PACELINE_ASSERT(false, "unknown norm");
}

void fill_uniform(double low, double high, CounterRandom& random, std::span<float> values) {
  for (float& value : values) value = static_cast<float>(low + (high - low) * random.next_double());
}

void fill_normal(double mean, double deviation, CounterRandom& random, std::span<float> values) {
  for (float& value : values) value = static_cast<float>(mean + deviation * random.next_normal());
}

}  // namespace

void fill(const FillerConfig& filler, const Fans& fans, CounterRandom random, std::span<float> values) {
  switch (filler.kind) {
    case FillerKind::kUsual:
      break;
    case FillerKind::kConstant:
      std::fill(values.begin(), values.end(), static_cast<float>(filler.value));
      return;
    case FillerKind::kUniform:
      return fill_uniform(filler.low, filler.high, random, values);
    case FillerKind::kGaussian: {
      fill_normal(filler.mean, filler.std, random, values);
      if (filler.sparse == 0) return;
      // Caffe divides by the number of outputs, though it speaks of an output's inputs.
      const double kept = static_cast<double>(filler.sparse) / fans.outputs;
      for (float& value : values) {
        if (random.next_double() >= kept) value = 0.0F;
      }
      return;
    }
    case FillerKind::kXavier: {
      const double bound = std::sqrt(3.0 / fan_of(filler.norm, fans));
      return fill_uniform(-bound, bound, random, values);
    }
    case FillerKind::kMsra:
      return fill_normal(0.0, std::sqrt(2.0 / fan_of(filler.norm, fans)), random, values);
  }
  PACELINE_ASSERT(false, "a filler that is none");
}

}  // namespace paceline
