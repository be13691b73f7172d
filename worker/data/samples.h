// A set of labelled samples, whatever it is stored as: what mini-batches are made of.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "common/label.h"
#include "common/status.h"
#include "worker/data/sampler.h"

namespace paceline {

// Thread: every member from any, several at the same time.
class Samples {
 public:
  virtual ~Samples() = default;

  virtual std::int64_t size() const = 0;    // at least 1
  virtual std::int64_t floats() const = 0;  // of one sample, as the network sees it
  virtual Label label(std::int64_t sample) const = 0;

  // Writes the sample as it is trained on in its epoch into `out` (floats()), and returns which one that is:
  // another one, always the same, where it cannot be read and another takes its place. A pure function of the
  // set, the run's seed and `ref`, so it does not matter who asks, when, and on which thread.
  // Errors: kDataLoss it cannot be read, and that ends the run.
  virtual Result<std::int64_t> train(const SampleRef& ref, std::span<float> out) const = 0;

  // Writes the sample as it is evaluated on into `out`; false: it cannot be read, and is left out. Errors: as
  // train().
  virtual Result<bool> evaluate(std::int64_t sample, std::span<float> out) const = 0;
};

}  // namespace paceline
