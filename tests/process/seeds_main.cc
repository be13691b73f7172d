// The main of those programs whose random schedules can be chosen (seeds.h): Catch2's own, with two options
// more.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include "tests/process/seeds.h"

namespace paceline::testing {
namespace {
Seeds asked;  // by the command line; a count of 0: nothing
}  // namespace

Seeds seeds(std::uint64_t count) { return {asked.first, asked.count == 0 ? count : asked.count}; }

}  // namespace paceline::testing

int main(int argc, char** argv) {
  using paceline::testing::asked;
  Catch::Session session;
  session.cli(session.cli() |
              Catch::clara::Opt(asked.first, "seed")["--first-seed"]("the first random schedule") |
              Catch::clara::Opt(asked.count, "count")["--schedules"]("how many, one seed after another"));
  if (const int refused = session.applyCommandLine(argc, argv); refused != 0) return refused;
  return session.run();
}
