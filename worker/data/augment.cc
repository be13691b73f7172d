// Crop, flip and normalisation; see augment.h.
#include "worker/data/augment.h"

#include <algorithm>
#include <cmath>

#include "common/assert.h"

namespace paceline {

Normalization normalization_of(const DataSet& set) {
  PACELINE_ASSERT(set.size() > 0, "the mean of an empty data set");
  Normalization result;
  const double count = static_cast<double>(set.size() * kPlaneSize);
  for (std::int64_t channel = 0; channel < kImageChannels; ++channel) {
    std::uint64_t sum = 0;  // at most 2^8 (squares 2^16) per pixel: room for 2^48 pixels
    std::uint64_t squares = 0;
    for (std::int64_t sample = 0; sample < set.size(); ++sample) {
      for (const std::uint8_t pixel :
           set.image(sample).subspan(static_cast<std::size_t>(channel * kPlaneSize), kPlaneSize)) {
        sum += pixel;
        squares += std::uint64_t{pixel} * pixel;
      }
    }
    const double mean = static_cast<double>(sum) / count;
    const double variance = static_cast<double>(squares) / count - mean * mean;
    const auto c = static_cast<std::size_t>(channel);
    result.mean[c] = static_cast<float>(mean);
    // Pixels are whole numbers, so a true variance is far above the rounding of this difference of large
    // numbers.
    result.scale[c] = variance > 1e-6 ? static_cast<float>(1.0 / std::sqrt(variance)) : 1.0F;
  }
  return result;
}

void render(std::span<const std::uint8_t> image, const Augmentation& augmentation,
            const Normalization& normalization, std::span<float> out) {
  PACELINE_ASSERT(image.size() == static_cast<std::size_t>(kImageSize) && out.size() == image.size(),
                  "an image has 3072 values");
  // The columns and rows of the output that lie inside the image; the rest is padding.
  const std::int64_t first_row = std::max(0, -augmentation.down);
  const std::int64_t end_row = kImageSide - std::max(0, augmentation.down);
  const std::int64_t first_column = std::max(0, -augmentation.right);
  const std::int64_t end_column = kImageSide - std::max(0, augmentation.right);
  const bool padded = augmentation.down != 0 || augmentation.right != 0;
  if (padded) std::fill(out.begin(), out.end(), 0.0F);

  for (std::int64_t channel = 0; channel < kImageChannels; ++channel) {
    const float mean = normalization.mean[static_cast<std::size_t>(channel)];
    const float scale = normalization.scale[static_cast<std::size_t>(channel)];
    for (std::int64_t row = first_row; row < end_row; ++row) {
      const std::uint8_t* in = image.data() + channel * kPlaneSize + (row + augmentation.down) * kImageSide;
      float* to = out.data() + channel * kPlaneSize + row * kImageSide;
      for (std::int64_t column = first_column; column < end_column; ++column) {
        to[column] = normalized(in[column + augmentation.right], mean, scale);
      }
      // Flipped afterwards and in place, so that the loop above stays one the compiler can vectorise.
      if (augmentation.flip == Flip::kYes) std::reverse(to, to + kImageSide);
    }
  }
}

}  // namespace paceline
