// The k-th largest magnitude is found digit by digit, from the highest: count how many floats have each
// digit, go down until k are passed, and look on among those that share it. Magnitudes are ordered as their
// bits are.
#include "common/encode/top_k.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "common/assert.h"
#include "common/encode/encoding.h"

namespace paceline {
namespace {

struct Pair {
  std::uint32_t offset;
  float value;
};
static_assert(sizeof(Pair) == kTopKPairBytes);

std::uint32_t magnitude_of(float value) { return std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFu; }

struct Digit {
  unsigned shift;
  unsigned bits;
};
constexpr std::array<Digit, 3> kDigits{{{20, 11}, {10, 10}, {0, 10}}};

// The k-th largest magnitude, and how many floats of just that magnitude are among the k.
struct Limit {
  std::uint32_t magnitude = 0;
  std::size_t equal = 0;
};

Limit limit_of(std::span<const float> in, std::size_t k) {
  Limit limit{0, k};
  std::uint32_t known = 0;  // the bits of limit.magnitude that are found
  for (const Digit& digit : kDigits) {
    const std::uint32_t digit_max = (1u << digit.bits) - 1;
    std::array<std::uint32_t, 1u << 11> count{};
    for (const float value : in) {
      const std::uint32_t magnitude = magnitude_of(value);
      if ((magnitude & known) == limit.magnitude) ++count[(magnitude >> digit.shift) & digit_max];
    }
    std::uint32_t at = digit_max;
    for (; count[at] < limit.equal; --at) limit.equal -= count[at];
    limit.magnitude |= at << digit.shift;
    known |= digit_max << digit.shift;
  }
  return limit;
}

}  // namespace

std::int64_t kept_of(double share, std::int64_t n) {
  // 0.07 x 100 is a little more than 7 in binary: seven are meant.
  constexpr double kRounding = 1e-12;
  const double kept = std::ceil(share * static_cast<double>(n) * (1.0 - kRounding));
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(kept), n > 0 ? 1 : 0, n);
}

void select_top_k(std::span<const float> in, std::span<std::byte> pairs) {
  const std::size_t k = pairs.size() / kTopKPairBytes;
  PACELINE_ASSERT(k <= in.size() && pairs.size() % kTopKPairBytes == 0,
                  std::to_string(pairs.size()) + " bytes for " + std::to_string(in.size()) + " floats");
  if (k == 0) return;
  Limit limit = limit_of(in, k);
  std::byte* next = pairs.data();
  for (std::size_t i = 0; i < in.size(); ++i) {
    const std::uint32_t magnitude = magnitude_of(in[i]);
    if (magnitude < limit.magnitude) continue;
    if (magnitude == limit.magnitude) {
      if (limit.equal == 0) continue;
      --limit.equal;
    }
    const Pair pair{static_cast<std::uint32_t>(i), in[i]};
    std::memcpy(next, &pair, sizeof pair);
    next += sizeof pair;
  }
}

Status place_top_k(std::span<const std::byte> pairs, std::span<float> out) {
  std::fill(out.begin(), out.end(), 0.0F);
  std::uint64_t least = 0;
  for (std::size_t at = 0; at < pairs.size(); at += sizeof(Pair)) {
    Pair pair;
    std::memcpy(&pair, pairs.data() + at, sizeof pair);
    if (pair.offset < least || pair.offset >= out.size()) {
      return invalid_argument("pair " + std::to_string(at / sizeof pair) + ": offset " +
                              std::to_string(pair.offset) + ", expected " + std::to_string(least) + " to " +
                              std::to_string(out.size() - 1));
    }
    out[pair.offset] = pair.value;
    least = std::uint64_t{pair.offset} + 1;
  }
  return Status::ok();
}

}  // namespace paceline
