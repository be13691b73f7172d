// A mini-batch as the loader prepares it: decoded, augmented, normalised, and remembering which samples it
// holds.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <vector>

#include "common/label.h"

namespace paceline {

// `size` samples. Owns its memory; a batch that is filled again keeps it, so a steady state allocates
// nothing.
struct MiniBatch {
  // `memory`: of the images, and outlives them. A GPU that reads them where they lie has them in memory of
  // its own choice; the rest, a thousandth of them, it is handed in whatever memory.
  explicit MiniBatch(std::pmr::memory_resource& memory = *std::pmr::new_delete_resource())
      : images(&memory) {}

  std::int64_t size = 0;
  std::pmr::vector<float> images;     // size x 3 x height x width, normalised, row-major; empty: left out
  std::vector<Label> labels;          // size; the classes
  std::vector<std::int64_t> samples;  // size; index in the data set
  std::vector<std::int64_t> epochs;   // size; epoch of each sample: a batch may cross into the next epoch
};

}  // namespace paceline
