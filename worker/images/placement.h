// Which part of a picture becomes a sample: as torchvision's Resize and CenterCrop, RandomResizedCrop, and
// Resize and RandomCrop choose it.
#pragma once

#include <cstdint>

#include "common/config/run_config.h"
#include "common/random.h"
#include "worker/images/picture.h"

namespace paceline {

// The picture's `part` is resized to `resized`, in which the sample is a square with its corner at (left,
// top); outside of `resized` there is the mean colour. `is_flipped`: then it is mirrored, left to right.
// Coordinates are those of the picture as it is shown.
//
//   evaluation, 500 x 375, resize 256, size 224     part (0, 0, 500, 375), resized 341 x 256, corner (58, 16)
struct Placement {
  PictureRect part;
  PictureSize resized;
  int left = 0;
  int top = 0;
  bool is_flipped = false;
  bool operator==(const Placement&) const = default;
};

// The shorter side resized to crop.resize, and the square in the middle.
Placement evaluation_placement(const PictureSize& picture, const CropSection& crop);

// A random one as crop.kind says. kArea: ten tries of a part with uniform area and log-uniform aspect that
// fits, then the largest in the middle whose aspect is allowed (Szegedy et al., "Going deeper with
// convolutions", section 6, in torchvision's form). kPlace: a uniform place in the resized and padded
// picture.
Placement training_placement(const PictureSize& picture, const CropSection& crop, CounterRandom& random);

}  // namespace paceline
