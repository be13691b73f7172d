// The loops behind encode.h: float32 to narrower numbers and back, compiled once for each instruction set and
// chosen at run time, as those of common/params/kernels.h are. Every set gives the same bits: integer
// operations, and exact division, multiplication and addition in the same order for each element.
//
// Not meant for callers at large, who take encode.h; the tests name a set.
//
// Thread: any. The arrays are the caller's, do not overlap, and need no alignment beyond that of their type.
#pragma once

#include <cstdint>

#include "common/params/kernels.h"

namespace paceline::conversions {

using kernels::InstructionSet;

struct Conversions {
  InstructionSet set;
  const char* name;  // plain, avx2

  // To the nearest binary16, ties to even, denormals included. A finite value beyond +-65504 becomes
  // +-65504; infinity stays, NaN stays NaN.
  void (*to_fp16)(std::uint16_t* out, const float* in, std::int64_t n);
  void (*from_fp16)(float* out, const std::uint16_t* in, std::int64_t n);
  // To the nearest bfloat16, ties to even. A finite value stays finite (+-3.39e38 at most); infinity stays,
  // NaN stays NaN.
  void (*to_bf16)(std::uint16_t* out, const float* in, std::int64_t n);
  void (*from_bf16)(float* out, const std::uint16_t* in, std::int64_t n);

  // The largest magnitude; 0 for none. Infinite values or NaN: not less than infinity.
  float (*largest)(const float* in, std::int64_t n);
  // in / scale to the nearest integer, ties to even, at most +-127. scale > 0; every value is finite.
  void (*to_int8)(std::int8_t* out, const float* in, float scale, std::int64_t n);
  // out = in * scale
  void (*from_int8)(float* out, const std::int8_t* in, float scale, std::int64_t n);
};

// The loops of `set`; nullptr where kernels::find() has none. kPlain always exists. Processors with AVX-512
// run those of kAvx2, of which kAvx512 has no copy: its registers would be as wide (kernels_avx512.cc), and
// without its instructions for bytes and words GCC vectorises what narrows only in part.
const Conversions* find(InstructionSet set);

// Those of the best set there is, the same on every call.
const Conversions& best();

}  // namespace paceline::conversions
