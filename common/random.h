// Counter-based randomness: every random number is a pure function of a key and a counter, so that it does
// not depend on which thread asks, in which order, or how often. Philox4x32-10 (Salmon et al., "Parallel
// random numbers: as easy as 1, 2, 3", SC 2011, section 4.3).
//
// Worked example: the crop of training sample 17 in epoch 3 under run seed 5 is
//   CounterRandom(5, Stream::kAugment, 3, 17).next_below(9)
// and it is the same on every node, at every cluster size, in every run with that seed.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace paceline {

// What a random number is for. Two streams never share numbers, whatever their other keys.
enum class Stream : std::uint32_t {
  kInitialParameters = 1,  // keys: tensor index
  kShuffle = 2,            // keys: epoch
  kAugment = 3,            // keys: epoch, sample
  kDropout = 4,            // keys: epoch, sample, layer
  kEmulation = 5,          // keys: worker rank, clock
  kSyntheticData = 6,      // keys: split, sample
  kIncarnation = 7,
  kThresholdWalk = 8,     // keys: LPR window
  kSimulatedCompute = 9,  // keys: worker rank, clock
  kSimulatedSpeed = 10,   // keys: node, kind of period, its number
  kSimulatedMetric = 11,  // keys: worker rank, clock
  kEvaluation = 12,       // keys: place
  kTest = 100,
};

// Ten rounds of Philox: 128 bits of counter and 64 bits of key to 128 random bits.
constexpr std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                  std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(p1),
               static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(p0)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

// A stream of numbers for one (seed, stream, a, b, c). Cheap to make: make one where it is needed, keep none.
// Satisfies UniformRandomBitGenerator. Thread: one.
class CounterRandom {
 public:
  using result_type = std::uint32_t;

  constexpr CounterRandom(std::uint64_t seed, Stream stream, std::uint64_t a = 0, std::uint64_t b = 0,
                          std::uint64_t c = 0) {
    // The key identifies (seed, stream, a, b, c) through two chained Philox blocks; the counter then only
    // counts.
    const auto outer = philox4x32({static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(a >> 32),
                                   static_cast<std::uint32_t>(stream), 0x5EEDu},
                                  {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
    const auto inner = philox4x32({static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(b >> 32),
                                   static_cast<std::uint32_t>(c), static_cast<std::uint32_t>(c >> 32)},
                                  {outer[0], outer[1]});
    key_ = {inner[0] ^ outer[2], inner[1] ^ outer[3]};
    salt_ = {inner[2], inner[3]};
  }

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return 0xFFFFFFFFu; }
  result_type operator()() { return next_u32(); }

  // The numbers that next_u32() gives as its 4 x `position` + 0 .. 3rd, out of turn and for whoever has no
  // time to count up to them: a GPU draws all of them at once.
  constexpr std::array<std::uint32_t, 4> block_at(std::uint64_t position) const {
    return philox4x32({static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(position >> 32),
                       salt_[0], salt_[1]},
                      key_);
  }

  constexpr std::uint32_t next_u32() {
    if (used_ == 4) refill();
    return block_[used_++];
  }
  constexpr std::uint64_t next_u64() {
    const std::uint64_t high = next_u32();
    return (high << 32) | next_u32();
  }
  // Uniform in [0, 1), 53 bits.
  double next_double() { return static_cast<double>(next_u64() >> 11) * 0x1.0p-53; }
  // Uniform in [0, 1), 24 bits.
  float next_float() { return static_cast<float>(next_u32() >> 8) * 0x1.0p-24F; }
  // Uniform in [0, bound), without bias (Lemire's rejection). bound > 0.
  constexpr std::uint64_t next_below(std::uint64_t bound) {
    __extension__ using Wide = unsigned __int128;  // a compiler's own type: -Wpedantic wants to be told
    for (;;) {
      const Wide product = static_cast<Wide>(next_u64()) * bound;
      const auto low = static_cast<std::uint64_t>(product);
      if (low >= bound || low >= (-bound) % bound) return static_cast<std::uint64_t>(product >> 64);
    }
  }
  // Standard normal (Box-Muller; the second value of a pair is thrown away to keep the stream position
  // simple).
  double next_normal() {
    const double u = 1.0 - next_double();
    const double v = next_double();
    return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586476925 * v);
  }

 private:
  constexpr void refill() {
    block_ = block_at(position_);
    ++position_;
    used_ = 0;
  }
  std::array<std::uint32_t, 2> key_{};
  std::array<std::uint32_t, 2> salt_{};
  std::array<std::uint32_t, 4> block_{};
  std::uint64_t position_ = 0;
  int used_ = 4;
};

}  // namespace paceline
