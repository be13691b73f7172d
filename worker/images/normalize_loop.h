// The loop of Loops::normalize, for the compiler to vectorise. Included by one file for each instruction set;
// each gets a copy of its own (internal linkage, for the reason that kernel_loops.h gives).
#pragma once

#include <cstdint>

#include "worker/images/pixel_loops.h"

namespace paceline::pixels {
namespace {

// A pixel is one load; which of its bytes is the first depends on the machine.
constexpr int shift_of(int colour) {
  return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 8 * colour : 24 - 8 * colour;
}

template <bool kMirrored>
void normalize_pixels(const std::uint8_t* pixels, int count, const float* mean, const float* scale,
                      const PlanesOut& out) {
  float* const red = out.red;
  float* const green = out.green;
  float* const blue = out.blue;
  const float means[3] = {mean[0], mean[1], mean[2]};
  const float scales[3] = {scale[0], scale[1], scale[2]};
#pragma GCC ivdep
  for (int x = 0; x < count; ++x) {
    std::uint32_t pixel = 0;
    __builtin_memcpy(&pixel, pixels + std::int64_t{4} * (kMirrored ? count - 1 - x : x), sizeof pixel);
    const auto of = [&](int colour) {  // as normalized() in worker/data/augmentation.h
      const auto value = static_cast<std::int32_t>((pixel >> shift_of(colour)) & 0xFFu);
      return (static_cast<float>(value) - means[colour]) * scales[colour];
    };
    red[x] = of(0);
    green[x] = of(1);
    blue[x] = of(2);
  }
}

void normalize(const std::uint8_t* pixels, int count, const float* mean, const float* scale, bool is_mirrored,
               const PlanesOut& out) {
  if (is_mirrored) {
    normalize_pixels<true>(pixels, count, mean, scale, out);
  } else {
    normalize_pixels<false>(pixels, count, mean, scale, out);
  }
}

}  // namespace
}  // namespace paceline::pixels
