// The rounds of a fuzzer that runs as a test: seeded, so that the number of a round reproduces it.
#pragma once

#include <cstdint>
#include <cstdio>
#include <exception>

#include "common/random.h"

namespace paceline::testing {

// Both outcomes of a round must be common, or the mutations test nothing: more than one input in
// `one_in_least` is to be accepted, and fewer than one in `one_in_most`.
struct Accepted {
  std::uint64_t one_in_least = 50;
  std::uint64_t one_in_most = 1;
};

// Calls accepts(random, round), which throws what it finds, and says so with the round. The exit status.
template <typename Accepts>
int run_rounds(const char* name, std::uint64_t seed, std::uint64_t rounds, Accepted wanted,
               const Accepts& accepts) {
  std::uint64_t accepted = 0;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    CounterRandom random(seed, Stream::kTest, round);
    try {
      if (accepts(random, round)) ++accepted;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s fuzz: round %llu: %s\n", name, static_cast<unsigned long long>(round),
                   error.what());
      return 1;
    }
  }
  std::printf("%s fuzz: %llu inputs, %llu still accepted\n", name, static_cast<unsigned long long>(rounds),
              static_cast<unsigned long long>(accepted));
  return accepted > rounds / wanted.one_in_least && accepted < rounds / wanted.one_in_most ? 0 : 1;
}

}  // namespace paceline::testing
