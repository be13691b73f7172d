// From a stored image to what the network sees: random crop and horizontal flip (He et al., "Deep residual
// learning", CVPR 2016, section 4.2: pad 4 pixels on each side, crop 32x32, flip with probability 1/2), and
// normalisation to mean 0 and standard deviation 1 per channel. What a sample gets is a pure function of
// (seed, epoch, sample), so it does not depend on which worker has it.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "worker/data/data_set.h"

namespace paceline {

inline constexpr int kCropPadding = 4;  // pixels

// value = (pixel - mean) x scale, per channel; pixel 0 .. 255.
struct Normalization {
  std::array<float, kImageChannels> mean{};
  std::array<float, kImageChannels> scale{};  // 1 / standard deviation
  bool operator==(const Normalization&) const = default;
};

// The mean and standard deviation of every channel over all pixels of `set` (not empty). Summed in integers,
// so that every node gets the same bits. A channel that never varies gets scale 1.
Normalization normalization_of(const DataSet& set);

enum class Flip : std::uint8_t { kNo, kYes };

// Output pixel (row, column) is input pixel (row + down, column + right), the column counted from the right
// edge when flipped; `down` and `right` in -4 .. 4. Outside the image there is nothing: 0 after
// normalisation, the mean colour.
struct Augmentation {
  int down = 0;
  int right = 0;
  Flip flip = Flip::kNo;
  bool operator==(const Augmentation&) const = default;
};

// The augmentation of `sample` in `epoch`: uniform over the 9 x 9 crops and the two flips (Stream::kAugment).
Augmentation draw_augmentation(std::uint64_t seed, std::int64_t epoch, std::int64_t sample);

// Writes `image` (3072 bytes, 3 x 32 x 32), augmented and normalised, into `out` (3072 floats).
void render(std::span<const std::uint8_t> image, const Augmentation& augmentation,
            const Normalization& normalization, std::span<float> out);

}  // namespace paceline
