// The main of those programs whose random schedules can be chosen (seeds.h): Catch2's own, with two options
// more.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include "tests/seeds.h"

namespace paceline::testing {
namespace {
std::uint64_t first_asked = 0;  // by the command line; 0: it has not said so
std::uint64_t count_asked = 0;
}  // namespace

Seeds seeds(std::uint64_t count) {
  Seeds range{.count = count, .first_is_chosen = first_asked != 0, .count_is_chosen = count_asked != 0};
  if (range.first_is_chosen) range.first = first_asked;
  if (range.count_is_chosen) range.count = count_asked;
  return range;
}

}  // namespace paceline::testing

int main(int argc, char** argv) {
  using namespace paceline::testing;
  Catch::Session session;
  session.cli(session.cli() |
              Catch::clara::Opt(first_asked, "seed")["--first-seed"]("the first random schedule, from 1 on") |
              Catch::clara::Opt(count_asked, "count")["--schedules"]("how many, one seed after another"));
  if (const int refused = session.applyCommandLine(argc, argv); refused != 0) return refused;
  return session.run();
}
