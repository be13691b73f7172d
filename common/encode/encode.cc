// One case for each encoding; the loops are conversion_loops.h's and top_k.cc's.
#include "common/encode/encode.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "common/assert.h"
#include "common/encode/conversions.h"
#include "common/encode/top_k.h"

namespace paceline {
namespace {

// What one step of int8 is worth, so that no byte says more than a float32 can hold: 127 times the next one above kMost
// is infinite. Not asked of scale * 127.0F, which GCC 14 takes for finite wherever `largest` is.
float scale_of(float largest) {
  constexpr float kMost = 0x1.020406p+121F;
  static_assert(kMost * 127.0F < std::numeric_limits<float>::max());
  const float scale = largest / 127.0F;
  return std::isfinite(largest) ? std::min(scale, kMost) : scale;
}

void encode_int8(std::span<const float> in, std::span<std::byte> out) {
  if (in.empty()) return;
  const auto n = std::ssize(in);
  const float scale = scale_of(conversions::best().largest(in.data(), n));
  std::memcpy(out.data(), &scale, sizeof scale);
  auto* const bytes = reinterpret_cast<std::int8_t*>(out.data() + kInt8ScaleBytes);
  if (scale > 0.0F && std::isfinite(scale)) {
    conversions::best().to_int8(bytes, in.data(), scale, n);
  } else {  // nothing there; or too large to be said, which the scale then tells: not even 0 x scale is
            // finite
    std::memset(bytes, 0, in.size());
  }
}

void decode_int8(std::span<const std::byte> bytes, std::span<float> out) {
  if (out.empty()) return;
  float scale = 0.0F;
  std::memcpy(&scale, bytes.data(), sizeof scale);
  conversions::best().from_int8(out.data(),
                                reinterpret_cast<const std::int8_t*>(bytes.data() + kInt8ScaleBytes), scale,
                                std::ssize(out));
}

}  // namespace

std::size_t Encoder::bytes_of(std::int64_t floats) const {
  const auto n = static_cast<std::size_t>(floats);
  switch (encoding) {
    case Encoding::kFp32:
      return 4 * n;
    case Encoding::kFp16:
    case Encoding::kBf16:
      return 2 * n;
    case Encoding::kInt8:
      return n == 0 ? 0 : kInt8ScaleBytes + n;
    case Encoding::kTopK:
      return kTopKPairBytes * static_cast<std::size_t>(kept_of(share, floats));
    case Encoding::kZero:
      return 0;
  }
  return 0;
}

void Encoder::encode(std::span<const float> in, std::span<std::byte> out) const {
  PACELINE_ASSERT(out.size() == bytes_of(std::ssize(in)),
                  std::to_string(out.size()) + " bytes for " + std::to_string(in.size()) + " floats");
  switch (encoding) {
    case Encoding::kFp32:
      if (!in.empty()) std::memcpy(out.data(), in.data(), out.size());
      return;
    case Encoding::kFp16:
      return conversions::best().to_fp16(reinterpret_cast<std::uint16_t*>(out.data()), in.data(),
                                         std::ssize(in));
    case Encoding::kBf16:
      return conversions::best().to_bf16(reinterpret_cast<std::uint16_t*>(out.data()), in.data(),
                                         std::ssize(in));
    case Encoding::kInt8:
      return encode_int8(in, out);
    case Encoding::kTopK:
      return select_top_k(in, out);
    case Encoding::kZero:
      return;
  }
}

Status decode(Encoding encoding, std::span<const std::byte> bytes, std::span<float> out) {
  PACELINE_ASSERT(fits(encoding, std::ssize(out), bytes.size()),
                  std::to_string(bytes.size()) + " bytes for " + std::to_string(out.size()) + " floats");
  switch (encoding) {
    case Encoding::kFp32:
      if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
      break;
    case Encoding::kFp16:
      conversions::best().from_fp16(out.data(), reinterpret_cast<const std::uint16_t*>(bytes.data()),
                                    std::ssize(out));
      break;
    case Encoding::kBf16:
      conversions::best().from_bf16(out.data(), reinterpret_cast<const std::uint16_t*>(bytes.data()),
                                    std::ssize(out));
      break;
    case Encoding::kInt8:
      decode_int8(bytes, out);
      break;
    case Encoding::kTopK:
      return place_top_k(bytes, out);
    case Encoding::kZero:
      std::fill(out.begin(), out.end(), 0.0F);
      break;
  }
  return Status::ok();
}

}  // namespace paceline
