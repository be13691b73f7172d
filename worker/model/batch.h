// A mini-batch as a back end sees it: decoded, augmented, normalised samples and their labels. Owned by
// whoever prepared it (the loader); a view that must outlive the call it is passed to, no longer.
#pragma once

#include <cstdint>
#include <span>

#include "common/label.h"

namespace paceline {

// N samples. `images` is float32, N x C x H x W, row-major; the other fields have N elements each. A back end
// that has the training set itself (Gpus::keep(), gpus.h) makes the images of sample_ids and epochs where
// `images` is empty, and then takes the labels from there, too; these are the same ones.
struct Batch {
  std::span<const float> images;
  std::span<const Label> labels;  // class of each sample, 0 .. classes - 1
  // Which sample of the training set, in which epoch: the keys of its dropout (worker/model/dropout.h).
  // Evaluation drops nothing and ignores both; they may then be empty.
  std::span<const std::int64_t> sample_ids;
  std::span<const std::int64_t> epochs;

  std::int64_t size() const { return static_cast<std::int64_t>(labels.size()); }
};

}  // namespace paceline
