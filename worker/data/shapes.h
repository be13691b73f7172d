// The drawings behind the generated data set: ten classes of shapes, each drawn with random position, size,
// orientation, colours, clutter and noise, so that no single pixel says much about the class and a linear
// model fails, while a small convolutional network learns most of it.
//
// Only + - * / and square roots are used (all exact to the last bit under IEEE 754, and compiled without FMA
// contraction): the same seed gives the same bytes on every machine. That is why directions are drawn by
// rejection instead of with sine and cosine, and noise is a sum of uniform numbers instead of Box-Muller.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "worker/data/data_set.h"

namespace paceline {

inline constexpr std::array<const char*, kClasses> kShapeNames = {
    "disc", "ring", "square", "frame", "triangle", "cross", "bars", "checks", "crescent", "two_discs"};

enum class Split : std::uint32_t { kTrain = 0, kTest = 1 };

// Draws sample `sample` of `split` as a picture of class `label` (0 .. 9) into `image` (3072 bytes, 3 x 32 x
// 32). A pure function of its arguments (Stream::kSyntheticData).
void draw_shape(std::uint64_t seed, Split split, std::int64_t sample, std::uint8_t label,
                std::span<std::uint8_t> image);

}  // namespace paceline
