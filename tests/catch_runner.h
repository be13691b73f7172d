// Catch2's runner, which is compiled once for all test programs: it is most of a minute's work under a
// sanitizer.
#pragma once

#include <cstdint>

namespace paceline::testing {

// What the command line may ask for (seeds.h); 0: it has not said so.
struct AskedSeeds {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

// As Catch2's own main: runs the program's tests, and returns its exit status. With `seeds` the command line
// has two options more, which are written there.
int run_tests(int argc, char** argv, AskedSeeds* seeds = nullptr);

}  // namespace paceline::testing
