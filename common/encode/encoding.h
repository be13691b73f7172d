// How a payload says its floats, and how many bytes that takes. The bytes themselves: encode.h; on the wire:
// docs/PROTOCOL.md, 2.
#pragma once

#include <cstddef>
#include <cstdint>

namespace paceline {

// Little endian throughout. `n` floats are said as
//   kFp32   n float32
//   kFp16   n IEEE 754 binary16
//   kBf16   n bfloat16: the upper half of a float32
//   kInt8   a float32 scale, then n signed bytes: value = byte x scale; nothing at all for n = 0
//   kTopK   pairs (uint32 offset, float32 value), offsets ascending; what is not named is 0
//   kZero   no bytes: all of them are 0. Beside pieces in any of these, of a gradient that is of a part of the model
// The numbers are those on the wire.
enum class Encoding : std::uint8_t { kFp32 = 0, kFp16 = 1, kBf16 = 2, kInt8 = 3, kTopK = 4, kZero = 5 };

// Whether every value survives in its place, rounded: what parameters may be sent as, each decoded anew. The
// others leave out more than a gradient may lose, and need error feedback.
constexpr bool only_rounds(Encoding encoding) { return encoding <= Encoding::kBf16; }

// The bytes of one pair of kTopK, and of kInt8's scale.
inline constexpr std::size_t kTopKPairBytes = 8;
inline constexpr std::size_t kInt8ScaleBytes = 4;

// Whether `bytes` can be `floats` (>= 0) floats in this encoding: exactly one number of bytes, but for kTopK,
// which says at least one pair and at most one for each float.
constexpr bool fits(Encoding encoding, std::int64_t floats, std::size_t bytes) {
  const auto n = static_cast<std::size_t>(floats);
  switch (encoding) {
    case Encoding::kFp32:
      return bytes == 4 * n;
    case Encoding::kFp16:
    case Encoding::kBf16:
      return bytes == 2 * n;
    case Encoding::kInt8:
      return bytes == (n == 0 ? 0 : kInt8ScaleBytes + n);
    case Encoding::kTopK:
      return bytes % kTopKPairBytes == 0 && bytes <= kTopKPairBytes * n && (bytes > 0) == (n > 0);
    case Encoding::kZero:
      return bytes == 0;
  }
  return false;
}

}  // namespace paceline
