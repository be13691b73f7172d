// Lengths are checked here; the loops are in kernel_loops.h.
#include "common/params/vector_ops.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "common/assert.h"
#include "common/params/kernels.h"

namespace paceline {
namespace {

void check_lengths(std::size_t a, std::size_t b) {
  PACELINE_ASSERT(a == b, std::to_string(a) + " and " + std::to_string(b) + " floats");
}

}  // namespace

void begin_sum(std::span<float> sum, std::span<const float> gradient, float weight) {
  check_lengths(sum.size(), gradient.size());
  kernels::best().begin_sum(sum.data(), gradient.data(), weight, std::ssize(sum));
}

void add_weighted(std::span<float> sum, std::span<const float> gradient, float weight) {
  check_lengths(sum.size(), gradient.size());
  kernels::best().add_weighted(sum.data(), gradient.data(), weight, std::ssize(sum));
}

void scale(std::span<float> values, float factor) {
  kernels::best().scale(values.data(), factor, std::ssize(values));
}

void subtract(std::span<float> difference, std::span<const float> minuend,
              std::span<const float> subtrahend) {
  check_lengths(difference.size(), minuend.size());
  check_lengths(difference.size(), subtrahend.size());
  kernels::best().subtract(difference.data(), minuend.data(), subtrahend.data(), std::ssize(difference));
}

void copy_part(std::span<float> out, std::span<const float> in, std::int64_t whole) {
  check_lengths(out.size(), in.size());
  if (whole > kCachedFloatsMax) {
    kernels::best().copy_past_cache(out.data(), in.data(), std::ssize(out));
  } else {
    std::copy(in.begin(), in.end(), out.begin());
  }
}

std::optional<std::int64_t> first_non_finite(std::span<const float> values) {
  const std::int64_t index = kernels::best().first_non_finite(values.data(), std::ssize(values));
  if (index == std::ssize(values)) return std::nullopt;
  return index;
}

}  // namespace paceline
