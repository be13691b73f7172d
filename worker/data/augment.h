// From a stored image to what the network sees: random crop and horizontal flip (He et al., "Deep residual
// learning", CVPR 2016, section 4.2: pad 4 pixels on each side, crop 32x32, flip with probability 1/2), and
// normalisation to mean 0 and standard deviation 1 per channel. What a sample gets is a pure function of
// (seed, epoch, sample), so it does not depend on which worker has it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/config/run_config.h"
#include "worker/data/augmentation.h"

namespace paceline {

// The mean and standard deviation of every channel over all pixels of `set` (not empty). Summed in integers,
// so that every node gets the same bits. A channel that never varies gets scale 1.
Normalization normalization_of(const DataSet& set);

// What becomes of pixels: a mean and a scale for each channel, or a mean for each place instead.
struct PixelRule {
  PixelRule() = default;
  PixelRule(const Normalization& of_channels) : channels(of_channels) {}  // NOLINT: the usual rule

  Normalization channels;
  // 3072 floats in the place of the channels' means; null: these. Of the place in the image as it is stored,
  // wherever a crop puts it, as Caffe.
  std::shared_ptr<const std::vector<float>> means;
};

// The rule that `data` asks for, with what it needs of the training set (not empty).
PixelRule pixel_rule_of(const DataSection& data, const DataSet& set);

// Writes `image` (3072 bytes, 3 x 32 x 32), augmented and normalised, into `out` (3072 floats).
void render(std::span<const std::uint8_t> image, const Augmentation& augmentation, const PixelRule& rule,
            std::span<float> out);

}  // namespace paceline
