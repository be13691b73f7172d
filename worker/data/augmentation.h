// What a training sample gets in an epoch, and what becomes of one of its pixels. In a header and without
// the library, because a GPU runs the same code (worker/model/cuda/render.h): a sample is the same to the
// last bit wherever it is prepared. augment.h has what a CPU does with a whole image.
#pragma once

#include <array>
#include <cstdint>

#include "common/random.h"
#include "worker/data/data_set.h"

namespace paceline {

inline constexpr int kCropPadding = 4;  // pixels

// value = (pixel - mean) x scale, per channel; pixel 0 .. 255.
struct Normalization {
  std::array<float, kImageChannels> mean{};
  std::array<float, kImageChannels> scale{};  // 1 / standard deviation
  bool operator==(const Normalization&) const = default;
};

// No compiler makes one operation of the two, as it could of a product and a sum.
constexpr float normalized(std::uint8_t pixel, float mean, float scale) {
  return (static_cast<float>(pixel) - mean) * scale;
}

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
constexpr Augmentation draw_augmentation(std::uint64_t seed, std::int64_t epoch, std::int64_t sample) {
  CounterRandom random(seed, Stream::kAugment, static_cast<std::uint64_t>(epoch),
                       static_cast<std::uint64_t>(sample));
  Augmentation result;
  result.down = static_cast<int>(random.next_below(2 * kCropPadding + 1)) - kCropPadding;
  result.right = static_cast<int>(random.next_below(2 * kCropPadding + 1)) - kCropPadding;
  result.flip = random.next_below(2) == 1 ? Flip::kYes : Flip::kNo;
  return result;
}

enum class Augment { kNo, kYes };  // data.augment

// How the samples of a run become what the network sees, but for the normalisation.
struct BatchOptions {
  Augment augment = Augment::kNo;
  std::uint64_t seed = 1;  // of the run: shuffle and augmentation are functions of it

  constexpr Augmentation augmentation_of(std::int64_t epoch, std::int64_t sample) const {
    return augment == Augment::kYes ? draw_augmentation(seed, epoch, sample) : Augmentation{};
  }
};

}  // namespace paceline
