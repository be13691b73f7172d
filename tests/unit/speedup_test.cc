// SparkNet's model of when local steps pay, in the numbers of its header and of the paper's formula.
#include "sweep/speedup.h"

#include <catch2/catch.hpp>
#include <vector>

namespace paceline::sweep {
namespace {

const std::vector<RoundsNeeded> kRuns{
    {1, 1, 1000}, {5, 10, 40}, {5, 50, 10}, {5, 100, std::nullopt}, {3, 10, 60}};

TEST_CASE("naive_parallelisation_never_gains_more_than_one_over_the_exchange") {
  CHECK(naive_speedup(5, 0.0) == 5.0);
  CHECK(naive_speedup(5, 1.0) == Approx(1.0 / 1.2));
  CHECK(naive_speedup(1'000'000, 0.5) == Approx(2.0).epsilon(1e-5));
}

TEST_CASE("rounds_gain_by_what_they_save_of_mini_batches_and_of_exchanges") {
  CHECK(serial_mini_batches(kRuns) == 1000);
  CHECK(speedup(1000, kRuns[1], 0.0) == 2.5);
  CHECK(speedup(1000, kRuns[2], 0.0) == 2.0);
  CHECK(*speedup(1000, kRuns[1], 1.0) == Approx(1000.0 / (11 * 40)));
  CHECK(*speedup(1000, kRuns[2], 50.0) == 1.0);
  CHECK_FALSE(speedup(1000, kRuns[3], 1.0));
}

TEST_CASE("the_best_number_of_local_steps_grows_with_what_an_exchange_costs") {
  CHECK(best_run(1000, kRuns, 5, 1.0)->local_steps == 10);
  CHECK(best_run(1000, kRuns, 5, 50.0)->local_steps == 50);
  CHECK(best_run(1000, kRuns, 3, 50.0)->local_steps == 10);
  CHECK(best_run(1000, kRuns, 4, 1.0) == nullptr);
  CHECK_FALSE(serial_mini_batches(std::vector<RoundsNeeded>{{5, 10, 40}}));
}

}  // namespace
}  // namespace paceline::sweep
