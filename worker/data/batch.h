// A mini-batch as the loader prepares it: decoded, augmented, normalised, and remembering which samples it
// holds.
#pragma once

#include <cstdint>
#include <vector>

namespace paceline {

// `size` samples. Owns its memory; a batch that is filled again keeps it, so a steady state allocates
// nothing.
struct MiniBatch {
  std::int64_t size = 0;
  std::vector<float> images;          // size x 3 x 32 x 32, normalised, row-major
  std::vector<std::uint8_t> labels;   // size; 0 .. 9
  std::vector<std::int64_t> samples;  // size; index in the data set
  std::vector<std::int64_t> epochs;   // size; epoch of each sample: a batch may cross into the next epoch
};

}  // namespace paceline
