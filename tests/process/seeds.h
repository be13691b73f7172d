// Which random schedules a program runs: all of its own, or those that its command line names.
//
//   guarantees_test --first-seed 17 --schedules 1          one schedule again, as a failure names it
//   guarantees_test --first-seed 10001 --schedules 20000   a longer run than the suite's, over other seeds
#pragma once

#include <cstdint>

namespace paceline::testing {

struct Seeds {
  std::uint64_t first = 1;
  std::uint64_t count = 0;
  std::uint64_t end() const { return first + count; }
};

// What the command line asks for; where it says nothing, `count` seeds from 1 on. seeds_main.cc has to be
// linked in place of the shared main.
Seeds seeds(std::uint64_t count);

}  // namespace paceline::testing
