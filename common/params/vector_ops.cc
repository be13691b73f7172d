// Plain loops that the compiler vectorises. `ivdep` says that no iteration depends on another one, which
// holds for equal and for disjoint vectors; without it, equal ones would take the scalar path behind a
// run-time overlap check.
#include "common/params/vector_ops.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <string>

#include "common/assert.h"

namespace paceline {
namespace {

void check_lengths(std::size_t a, std::size_t b) {
  PACELINE_ASSERT(a == b, std::to_string(a) + " and " + std::to_string(b) + " floats");
}

// An exponent of all ones is what NaN and infinity have in common (IEEE 754). Bits, not isfinite(): the same
// answer under every floating-point option, and an integer loop that vectorises.
constexpr std::uint32_t kExponent = 0x7F800000u;
bool is_non_finite(float value) { return (std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent; }

}  // namespace

void begin_sum(std::span<float> sum, std::span<const float> gradient, float weight) {
  check_lengths(sum.size(), gradient.size());
  float* const s = sum.data();
  const float* const g = gradient.data();
  const std::size_t n = sum.size();
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) s[i] = weight * g[i];
}

void accumulate(std::span<float> sum, std::span<const float> gradient, float weight) {
  check_lengths(sum.size(), gradient.size());
  float* const s = sum.data();
  const float* const g = gradient.data();
  const std::size_t n = sum.size();
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) s[i] = s[i] + weight * g[i];
}

void scale(std::span<float> values, float factor) {
  for (float& value : values) value = value * factor;
}

void subtract(std::span<float> difference, std::span<const float> minuend,
              std::span<const float> subtrahend) {
  check_lengths(difference.size(), minuend.size());
  check_lengths(difference.size(), subtrahend.size());
  float* const d = difference.data();
  const float* const a = minuend.data();
  const float* const b = subtrahend.data();
  const std::size_t n = difference.size();
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) d[i] = a[i] - b[i];
}

std::optional<std::int64_t> first_non_finite(std::span<const float> values) {
  constexpr std::size_t kChunk = 1024;  // looked at whole, without a branch for each value
  for (std::size_t begin = 0; begin < values.size(); begin += kChunk) {
    const auto chunk = values.subspan(begin, std::min(kChunk, values.size() - begin));
    std::uint32_t found = 0;
    for (float value : chunk) found |= static_cast<std::uint32_t>(is_non_finite(value));
    if (found == 0) continue;
    for (std::size_t i = 0; i < chunk.size(); ++i) {
      if (is_non_finite(chunk[i])) return static_cast<std::int64_t>(begin + i);
    }
  }
  return std::nullopt;
}

}  // namespace paceline
