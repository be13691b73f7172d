// The shuffle as a function; see sampler.h.
#include "worker/data/sampler.h"

#include <bit>
#include <string>

#include "common/assert.h"
#include "common/random.h"

namespace paceline {
namespace {

constexpr std::uint32_t kRounds = 4;  // of two half-rounds each: Luby and Rackoff's four, twice over

std::uint64_t low_bits(int count) { return (std::uint64_t{1} << count) - 1; }

}  // namespace

Sampler::Sampler(std::int64_t samples, std::uint64_t seed) : samples_(samples), seed_(seed) {
  PACELINE_ASSERT(samples > 0, "a sampler of " + std::to_string(samples) + " samples");
  const int bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(samples - 1)));
  left_bits_ = bits / 2;
  right_bits_ = bits - left_bits_;
}

SampleRef Sampler::at(std::int64_t position) const {
  PACELINE_ASSERT(position >= 0, "position " + std::to_string(position) + " of the epochs' permutations");
  const std::int64_t epoch = position / samples_;
  return {epoch, static_cast<std::int64_t>(permute(epoch, static_cast<std::uint64_t>(position % samples_)))};
}

std::uint64_t Sampler::permute(std::int64_t epoch, std::uint64_t index) const {
  CounterRandom random(seed_, Stream::kShuffle, static_cast<std::uint64_t>(epoch));
  const std::array<std::uint32_t, 2> key = {random.next_u32(), random.next_u32()};
  const auto mix = [&key](std::uint64_t half, std::uint32_t round) {
    const auto block =
        philox4x32({static_cast<std::uint32_t>(half), static_cast<std::uint32_t>(half >> 32), round, 0}, key);
    return (std::uint64_t{block[0]} << 32) | block[1];
  };
  // Each half-round changes one half by a function of the other, so it can be undone: the whole is a
  // bijection. The cycle through `index` comes back below N, because it started there.
  do {
    std::uint64_t left = index >> right_bits_;
    std::uint64_t right = index & low_bits(right_bits_);
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      left ^= mix(right, 2 * round) & low_bits(left_bits_);
      right ^= mix(left, 2 * round + 1) & low_bits(right_bits_);
    }
    index = (left << right_bits_) | right;
  } while (index >= static_cast<std::uint64_t>(samples_));
  return index;
}

}  // namespace paceline
