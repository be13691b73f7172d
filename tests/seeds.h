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
  bool first_is_chosen = false;  // by the command line
  bool count_is_chosen = false;
  std::uint64_t end() const { return first + count; }
  // The program's own: what so many have to cover is asked of these alone.
  bool are_the_suites() const { return !first_is_chosen && !count_is_chosen; }
};

// What the command line asks for; where it says nothing, `count` seeds from 1 on. seeds_main.cc has to be
// linked in place of the shared main.
Seeds seeds(std::uint64_t count);

}  // namespace paceline::testing
