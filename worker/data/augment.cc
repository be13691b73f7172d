// Crop, flip and normalisation; see augment.h.
#include "worker/data/augment.h"

#include <algorithm>
#include <cmath>
#include <functional>

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

namespace {

// The mean of each place over all images of `set`, summed in integers.
std::vector<float> means_of_places(const DataSet& set) {
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(kImageSize));
  for (std::int64_t sample = 0; sample < set.size(); ++sample) {
    const auto image = set.image(sample);
    std::transform(image.begin(), image.end(), sums.begin(), sums.begin(), std::plus<>());
  }
  std::vector<float> means;
  for (const std::uint64_t sum : sums) {
    means.push_back(static_cast<float>(static_cast<double>(sum) / static_cast<double>(set.size())));
  }
  return means;
}

}  // namespace

PixelRule pixel_rule_of(const DataSection& data, const DataSet& set) {
  PixelRule rule(normalization_of(set));
  auto& mean = rule.channels.mean;
  switch (data.subtract) {
    case Subtract::kChannel:
      break;
    case Subtract::kPixel:
      rule.means = std::make_shared<const std::vector<float>>(means_of_places(set));
      break;
    case Subtract::kValues:
      for (std::size_t c = 0; c < mean.size(); ++c) {
        mean[c] = static_cast<float>(data.subtract_values[data.subtract_values.size() == 1 ? 0 : c]);
      }
      break;
    case Subtract::kNone:
      mean.fill(0.0F);
      break;
  }
  if (data.scale) rule.channels.scale.fill(static_cast<float>(*data.scale));
  return rule;
}

void render(std::span<const std::uint8_t> image, const Augmentation& augmentation, const PixelRule& rule,
            std::span<float> out) {
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
    const float mean = rule.channels.mean[static_cast<std::size_t>(channel)];
    const float scale = rule.channels.scale[static_cast<std::size_t>(channel)];
    for (std::int64_t row = first_row; row < end_row; ++row) {
      const std::int64_t from = channel * kPlaneSize + (row + augmentation.down) * kImageSide;
      const std::uint8_t* in = image.data() + from;
      float* to = out.data() + channel * kPlaneSize + row * kImageSide;
      if (rule.means == nullptr) {
        for (std::int64_t column = first_column; column < end_column; ++column) {
          to[column] = normalized(in[column + augmentation.right], mean, scale);
        }
      } else {
        const float* const means = rule.means->data() + from;
        for (std::int64_t column = first_column; column < end_column; ++column) {
          const std::int64_t at = column + augmentation.right;
          to[column] = normalized(in[at], means[at], scale);
        }
      }
      // Flipped afterwards and in place, so that the loop above stays one the compiler can vectorise.
      if (augmentation.flip == Flip::kYes) std::reverse(to, to + kImageSide);
    }
  }
}

}  // namespace paceline
