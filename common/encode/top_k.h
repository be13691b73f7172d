// Choosing the floats of a frame that are largest in magnitude, and the pairs (uint32 offset, float32 value)
// that say them.
//
// Worked example, two of five: 0.5 -3 0 2 -2 gives (1, -3) (3, 2): of the two 2s the first one.
//
// Thread: any; no state, no memory but the caller's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/status.h"

namespace paceline {

// How many of `n` floats a share of (0, 1] keeps: ceil(share x n), so one at least of a frame that has any.
std::int64_t kept_of(double share, std::int64_t n);

// Writes the pairs of the floats largest in magnitude, as many as `pairs` has room for (8 bytes each, at most
// in.size()), offsets ascending; of equal ones the first. One pass over `in` for each third of a float's bits
// and one to write: no sorting.
void select_top_k(std::span<const float> in, std::span<std::byte> pairs);

// Sets `out` to the values named and to 0 elsewhere. Errors, with `out` in part written: kInvalidArgument an
// offset that does not ascend or lies outside.
[[nodiscard]] Status place_top_k(std::span<const std::byte> pairs, std::span<float> out);

}  // namespace paceline
