// Floats to fewer bytes and back: the payload of one frame (encoding.h says its form). Pure; elementwise for
// fp16 and bf16, frame by frame for int8 and top_k, whose bytes therefore depend on where a vector is cut.
//
//   fp16, bf16   each value to the nearest one there is, ties to even; what is finite stays finite
//   int8         scale = (largest magnitude of the frame) / 127, each value to the nearest multiple, ties to
//                even, at most 127 of them; all zero where the scale is
//   top_k        the ceil(share x n) values largest in magnitude, exactly; of equal ones the first
//
// Thread: any; no state. Every instruction set gives the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/encode/encoding.h"
#include "common/status.h"

namespace paceline {

// How floats are said: the encoding, and for kTopK the share kept, 0 < share <= 1.
struct Encoder {
  Encoding encoding = Encoding::kFp32;
  double share = 1.0;

  // The bytes of a frame of `floats`.
  std::size_t bytes_of(std::int64_t floats) const;
  // Encodes a frame into `out`, of bytes_of(in.size()) bytes, aligned for float. Every value is finite; what
  // is not comes out as something that is not finite, or as it is.
  void encode(std::span<const float> in, std::span<std::byte> out) const;
};

// Decodes `bytes`, which fit `out` (fits()) and are aligned for float. Errors, with `out` in part written:
// kInvalidArgument kTopK's offsets do not ascend or lie outside the frame. Whether the values are finite is
// not looked at.
[[nodiscard]] Status decode(Encoding encoding, std::span<const std::byte> bytes, std::span<float> out);

}  // namespace paceline
