// The loops over flat float32 vectors that are no optimizer: the weighted mean of a clock's gradients,
// differences, and the search for a NaN. Elementwise and in a fixed order, so the bits depend on the
// arguments alone, not on how a vector was cut or how wide the processor's registers are.
//
// The mean of gradients g1, g2, g3 over n1, n2, n3 samples (combine: mean; docs/SYNC.md, Versions and
// revisions), always in worker order:
//   begin_sum(sum, g1, n1); add_weighted(sum, g2, n2); add_weighted(sum, g3, n3);
//   scale(sum, 1 / (n1 + n2 + n3))
//
// Thread: any; the vectors are the caller's. Vectors of one call have the same length and either are the same
// or do not overlap.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace paceline {

// sum[i] = weight * gradient[i]
void begin_sum(std::span<float> sum, std::span<const float> gradient, float weight);

// sum[i] += weight * gradient[i]. With weight 1 it is plain addition: how a worker re-applies its own
// difference.
void add_weighted(std::span<float> sum, std::span<const float> gradient, float weight);

// values[i] *= factor
void scale(std::span<float> values, float factor);

// difference[i] = minuend[i] - subtrahend[i]
void subtract(std::span<float> difference, std::span<const float> minuend, std::span<const float> subtrahend);

// Vectors of more floats are not in the processor's cache when they are read again: half of a common
// last-level cache.
inline constexpr std::int64_t kCachedFloatsMax = std::int64_t{4} << 20;

// out = in, parts of vectors of `whole` floats: past the cache where those outgrow it. An ordinary store
// reads the line that it writes first; without that, copying costs two thirds.
void copy_part(std::span<float> out, std::span<const float> in, std::int64_t whole);

// The index of the first NaN or infinity; nullopt when every value is finite. Reads at memory speed when all
// are.
std::optional<std::int64_t> first_non_finite(std::span<const float> values);

}  // namespace paceline
