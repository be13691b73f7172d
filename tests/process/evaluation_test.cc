// Evaluation of one exact version over real sockets, while training goes on.
#include <catch2/catch.hpp>

#include "tests/process/exact_evaluations.h"

TEST_CASE("an_evaluation_sees_one_exact_version_on_all_shards_while_training_goes_on") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed)
    CHECK(paceline::testing::violation_of_evaluations(seed) == "");
}
