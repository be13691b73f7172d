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

Sampler::Sampler(std::int64_t samples, std::uint64_t seed, const FixedParts& parts)
    : samples_(samples), seed_(seed), parts_(parts) {
  PACELINE_ASSERT(parts.nodes > 0 && parts.workers > 0 && parts.round > 0,
                  std::to_string(parts.nodes) + " nodes of " + std::to_string(parts.workers) +
                      " workers, rounds of " + std::to_string(parts.round));
  PACELINE_ASSERT(samples >= parts.nodes, "a sampler of " + std::to_string(samples) + " samples for " +
                                              std::to_string(parts.nodes) + " nodes");
  const std::int64_t largest = (samples + parts.nodes - 1) / parts.nodes;
  const int bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(largest - 1)));
  left_bits_ = bits / 2;
  right_bits_ = bits - left_bits_;
}

SampleRef Sampler::at(std::int64_t position) const {
  PACELINE_ASSERT(position >= 0, "position " + std::to_string(position) + " of the epochs' permutations");
  // Round by round the workers of all nodes take turns; `place` counts the node's own samples.
  const std::int64_t turn = position / parts_.round;
  const std::int64_t in_a_turn = parts_.nodes * parts_.workers;
  const std::int64_t node = turn % in_a_turn / parts_.workers;
  const std::int64_t worker = turn % parts_.workers;
  const std::int64_t place =
      (turn / in_a_turn * parts_.workers + worker) * parts_.round + position % parts_.round;
  const std::int64_t size = (samples_ - node + parts_.nodes - 1) / parts_.nodes;
  const std::int64_t epoch = place / size;
  const auto mine = permute(epoch, node, static_cast<std::uint64_t>(place % size), size);
  return {epoch, static_cast<std::int64_t>(mine) * parts_.nodes + node};
}

std::uint64_t Sampler::permute(std::int64_t epoch, std::int64_t node, std::uint64_t index,
                               std::int64_t size) const {
  CounterRandom random(seed_, Stream::kShuffle, static_cast<std::uint64_t>(epoch),
                       static_cast<std::uint64_t>(node));
  const std::array<std::uint32_t, 2> key = {random.next_u32(), random.next_u32()};
  const auto mix = [&key](std::uint64_t half, std::uint32_t round) {
    const auto block =
        philox4x32({static_cast<std::uint32_t>(half), static_cast<std::uint32_t>(half >> 32), round, 0}, key);
    return (std::uint64_t{block[0]} << 32) | block[1];
  };
  // Each half-round changes one half by a function of the other, so it can be undone: the whole is a
  // bijection. The cycle through `index` comes back below `size`, because it started there.
  do {
    std::uint64_t left = index >> right_bits_;
    std::uint64_t right = index & low_bits(right_bits_);
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      left ^= mix(right, 2 * round) & low_bits(left_bits_);
      right ^= mix(left, 2 * round + 1) & low_bits(right_bits_);
    }
    index = (left << right_bits_) | right;
  } while (index >= static_cast<std::uint64_t>(size));
  return index;
}

}  // namespace paceline
