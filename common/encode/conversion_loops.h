// The loops of conversions.h, for the compiler to vectorise. Included by exactly one file for each
// instruction set; internal linkage and no library function, for the reason that common/params/kernel_loops.h
// gives.
//
// Both sides of every choice are computed and one is taken, without a branch, in integers of 32 bits: what
// vectorises on every set, and needs no instruction that one of them has and another rounds otherwise.
#pragma once

#include <cstdint>

#include "common/encode/conversion_tables.h"

namespace paceline::conversions {
namespace {

inline std::int32_t bits_of(float value) { return __builtin_bit_cast(std::int32_t, value); }
inline float float_of(std::int32_t bits) { return __builtin_bit_cast(float, bits); }

constexpr std::int32_t kMagnitude = 0x7FFFFFFF;
constexpr std::int32_t kInfinity = 0x7F800000;  // as a float32; above it: NaN

// binary16 has 5 exponent bits (bias 15) and 10 fraction bits, float32 8 (127) and 23.
constexpr std::int32_t kFractionBitsLost = 23 - 10;
constexpr std::int32_t kBiasDifference = (127 - 15) << 23;
constexpr std::int32_t kLeastNormalFp16 = (127 - 14) << 23;  // 2^-14, as a float32
constexpr std::int32_t kLargestFp16 = 0x7BFF;                // 65504
constexpr std::int32_t kInfiniteFp16 = 0x7C00;
constexpr std::int32_t kNanFp16 = 0x7E00;

inline std::uint16_t fp16_of(float value) {
  const std::int32_t bits = bits_of(value);
  const std::int32_t magnitude = bits & kMagnitude;
  // Normal results: half of what is cut off, less one where the last bit kept is even, carries upwards.
  const std::int32_t odd = (magnitude >> kFractionBitsLost) & 1;
  const std::int32_t half = (1 << (kFractionBitsLost - 1)) - 1 + odd;
  const std::int32_t normal = (magnitude - kBiasDifference + half) >> kFractionBitsLost;
  // Denormal results: 0.5 has a last place of 2^-24, which is binary16's smallest step, so that adding it
  // rounds as needed.
  constexpr std::int32_t kHalf = 126 << 23;
  const std::int32_t denormal = bits_of(float_of(magnitude) + float_of(kHalf)) - kHalf;
  std::int32_t result = magnitude < kLeastNormalFp16 ? denormal : normal;
  result = result > kLargestFp16 ? kLargestFp16 : result;
  result = magnitude >= kInfinity ? kInfiniteFp16 : result;
  result = magnitude > kInfinity ? kNanFp16 : result;
  return static_cast<std::uint16_t>(result | ((bits >> 16) & 0x8000));
}

inline float of_fp16(std::uint16_t value) {
  const std::int32_t sign = (value & 0x8000) << 16;
  const std::int32_t magnitude = value & 0x7FFF;
  const std::int32_t shifted = magnitude << kFractionBitsLost;
  const std::int32_t normal = shifted + kBiasDifference;
  // A denormal's fraction after the exponent of 2^-14 is too large by just 2^-14.
  const std::int32_t denormal = bits_of(float_of(shifted + kLeastNormalFp16) - float_of(kLeastNormalFp16));
  std::int32_t result = magnitude < 0x0400 ? denormal : normal;
  result = magnitude >= kInfiniteFp16 ? (shifted | kInfinity) : result;
  return float_of(result | sign);
}

inline std::uint16_t bf16_of(float value) {
  const std::int32_t bits = bits_of(value);
  const std::int32_t magnitude = bits & kMagnitude;
  constexpr std::int32_t kLargest = 0x7F7F;
  const std::int32_t half = 0x7FFF + ((magnitude >> 16) & 1);
  const std::int32_t cut = magnitude >> 16;
  const std::int32_t rounded = (magnitude < kInfinity ? magnitude + half : 0) >> 16;
  std::int32_t result = rounded > kLargest ? kLargest : rounded;
  result = magnitude >= kInfinity ? cut : result;
  result = magnitude > kInfinity ? cut | 0x40 : result;  // a quiet NaN, even if the bits cut off made it one
  return static_cast<std::uint16_t>(result | ((bits >> 16) & 0x8000));
}

void to_fp16(std::uint16_t* out, const float* in, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) out[i] = fp16_of(in[i]);
}

void from_fp16(float* out, const std::uint16_t* in, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) out[i] = of_fp16(in[i]);
}

void to_bf16(std::uint16_t* out, const float* in, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) out[i] = bf16_of(in[i]);
}

void from_bf16(float* out, const std::uint16_t* in, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    out[i] = float_of(static_cast<std::int32_t>(static_cast<std::uint32_t>(in[i]) << 16));
  }
}

// Magnitudes are ordered as their bits are.
float largest(const float* in, std::int64_t n) {
  std::int32_t found = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int32_t magnitude = bits_of(in[i]) & kMagnitude;
    found = magnitude > found ? magnitude : found;
  }
  return float_of(found);
}

void to_int8(std::int8_t* out, const float* in, float scale, std::int64_t n) {
  // 1.5 x 2^23 has a last place of 1: adding it rounds to the nearest integer, ties to even, and leaves that
  // in the low bits.
  constexpr float kRounder = 12582912.0F;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    float steps = in[i] / scale;
    steps = steps > 127.0F ? 127.0F : steps;
    steps = steps < -127.0F ? -127.0F : steps;
    out[i] = static_cast<std::int8_t>(bits_of(steps + kRounder) - bits_of(kRounder));
  }
}

void from_int8(float* out, const std::int8_t* in, float scale, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(in[i]) * scale;
}

constexpr Conversions table(InstructionSet set, const char* name) {
  return {set, name, to_fp16, from_fp16, to_bf16, from_bf16, largest, to_int8, from_int8};
}

}  // namespace
}  // namespace paceline::conversions
