#define CATCH_CONFIG_RUNNER
#include "tests/catch_runner.h"

#include <catch2/catch.hpp>

namespace paceline::testing {

int run_tests(int argc, char** argv, AskedSeeds* seeds) {
  Catch::Session session;
  session.configData().rngSeed = 0;  // as in version 2; version 3 draws one, and --rng-seed asks for another
  if (seeds != nullptr) {
    using Catch::clara::Opt;
    session.cli(session.cli() |
                Opt(seeds->first, "seed")["--first-seed"]("the first random schedule, from 1 on") |
                Opt(seeds->count, "count")["--schedules"]("how many, one seed after another"));
  }
  if (const int refused = session.applyCommandLine(argc, argv); refused != 0) return refused;
  return session.run();
}

}  // namespace paceline::testing
