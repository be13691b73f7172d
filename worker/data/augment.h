// From a stored image to what the network sees: random crop and horizontal flip (He et al., "Deep residual
// learning", CVPR 2016, section 4.2: pad 4 pixels on each side, crop 32x32, flip with probability 1/2), and
// normalisation to mean 0 and standard deviation 1 per channel. What a sample gets is a pure function of
// (seed, epoch, sample), so it does not depend on which worker has it.
#pragma once

#include <cstdint>
#include <span>

#include "worker/data/augmentation.h"

namespace paceline {

// The mean and standard deviation of every channel over all pixels of `set` (not empty). Summed in integers,
// so that every node gets the same bits. A channel that never varies gets scale 1.
Normalization normalization_of(const DataSet& set);

// Writes `image` (3072 bytes, 3 x 32 x 32), augmented and normalised, into `out` (3072 floats).
void render(std::span<const std::uint8_t> image, const Augmentation& augmentation,
            const Normalization& normalization, std::span<float> out);

}  // namespace paceline
