// A simulation over many seeds: those kept, then a range (tests/seeds.h). Whatever ends one, an assertion of
// the core too, is printed with its seed.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/seeds.h"

namespace paceline::test {

// `failure_of(seed)` is empty, or says what is wrong, beginning with "seed N". The case fails with all of
// these, but for those beyond the first twenty. Where the command line names the first seed, kept ones are
// left out: that is a look at certain schedules.
inline void run_seeds(const testing::Seeds& range, const std::vector<std::uint64_t>& kept,
                      const std::function<std::string(std::uint64_t seed)>& failure_of) {
  int failures = 0;
  const auto run = [&](std::uint64_t seed) {
    INFO("running seed " << seed);  // for what does not return
    const std::string failure = failure_of(seed);
    if (failure.empty()) return;
    FAIL_CHECK(failure);
    if (++failures == 20) FAIL("twenty seeds have failed: the others are not run");
  };
  if (!range.first_is_chosen) {
    for (const std::uint64_t seed : kept) run(seed);
  }
  for (std::uint64_t seed = range.first; seed < range.end(); ++seed) run(seed);
}

}  // namespace paceline::test
