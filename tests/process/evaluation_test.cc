// Evaluation of one exact version over real sockets, while training goes on.
#include <catch2/catch.hpp>

#include "tests/process/exact_evaluations.h"
#include "tests/process/transport.h"

namespace paceline::testing {
namespace {

constexpr std::int64_t kLargeRows = 750;  // 1000 floats a shard: in two frames, too large to be copied

const EvaluationRun kRuns[] = {
    {},
    {.what = "over tcp", .endpoint = kAnyPort, .rows = kLargeRows},
    {.what = "in shared memory", .rows = kLargeRows, .shared_memory = SharedMemory::kOn},
    {.what = "in 16 bits, over tcp", .endpoint = kAnyPort, .rows = kLargeRows, .encoding = Encoding::kFp16},
};

}  // namespace

TEST_CASE("an_evaluation_sees_one_exact_version_on_all_shards_while_training_goes_on") {
  const EvaluationRun& how = kRuns[GENERATE(range(std::size_t{0}, std::size(kRuns)))];
  CAPTURE(how.what);
  for (std::uint64_t seed = 1; seed <= 2; ++seed) CHECK(violation_of_evaluations(seed, how) == "");
}

}  // namespace paceline::testing
