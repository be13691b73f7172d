// SparkNet's model of when local steps pay, in the numbers of its header and of the paper's formula.
#include "sweep/speedup.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "common/timing/histogram.h"

namespace paceline::sweep {
namespace {

const std::vector<RoundsNeeded> kRuns{
    {1, 1, 1000}, {5, 10, 40}, {5, 50, 10}, {5, 100, std::nullopt}, {3, 10, 60}};

TEST_CASE("naive_parallelisation_never_gains_more_than_one_over_the_exchange") {
  CHECK(naive_speedup(5, 0.0) == 5.0);
  CHECK(naive_speedup(5, 1.0) == Approx(1.0 / 1.2));
  CHECK(naive_speedup(1'000'000, 0.5) == Approx(2.0).epsilon(1e-5));
}

// Section 3.1 of the paper, C / (C / K + S), worked out in hundredths.
TEST_CASE("the_naive_speedup_is_the_paper_s_formula") {
  struct Row {
    double exchange;
    double of_3, of_5, of_10;
  };
  for (const Row& row : {Row{0.0, 3.0, 5.0, 10.0}, Row{0.01, 2.91, 4.76, 9.09}, Row{0.1, 2.31, 3.33, 5.0},
                         Row{1.0, 0.75, 0.83, 0.91}, Row{10.0, 0.10, 0.10, 0.10}}) {
    const auto in_hundredths = [&](std::int64_t workers) {
      return std::round(100 * naive_speedup(workers, row.exchange)) / 100;
    };
    CAPTURE(row.exchange);
    CHECK(in_hundredths(3) == Approx(row.of_3));
    CHECK(in_hundredths(5) == Approx(row.of_5));
    CHECK(in_hundredths(10) == Approx(row.of_10));
  }
}

// N / (tau M) of section 3.1, worked out in tenths; the rounds are made up.
TEST_CASE("the_gain_with_free_exchanges_is_the_paper_s_formula") {
  const auto gain = [](std::int64_t workers, std::int64_t rounds) {
    return std::round(10 * *speedup(24'000, {workers, 50, rounds}, 0.0)) / 10;
  };
  CHECK(gain(3, 200) == Approx(2.4));
  CHECK(gain(5, 126) == Approx(3.8));
  CHECK(gain(10, 109) == Approx(4.4));
}

CurveRow row_of(std::int64_t version, double accuracy) {
  CurveRow row;
  row.version = Version(version);
  row.test_accuracy = accuracy;
  return row;
}

// After the version that is good enough the final one is evaluated, which may be worse.
TEST_CASE("a_run_that_is_there_at_its_first_evaluation_is_so_whatever_comes_behind") {
  const std::vector<CurveRow> early = {row_of(0, 0.1), row_of(4, 0.13), CurveRow{}, row_of(5, 0.08)};
  CHECK((evaluated(early, 0.11).rounds == 4 && evaluated(early, 0.11).at_first));
  CHECK(evaluated(early, 0.11).best == 0.13);
  const std::vector<CurveRow> late = {row_of(0, 0.1), row_of(4, 0.1), row_of(8, 0.13), row_of(9, 0.12)};
  CHECK((evaluated(late, 0.11).rounds == 8 && !evaluated(late, 0.11).at_first));
  CHECK((!evaluated(late, 0.2).rounds && !evaluated(late, 0.2).at_first));
  const std::vector<CurveRow> at_once = {row_of(0, 0.1), row_of(1, 0.13), row_of(2, 0.13)};
  CHECK((evaluated(at_once, 0.11).rounds == 1 && !evaluated(at_once, 0.11).at_first));
}

PhaseStat each_of(std::int64_t ms, std::int64_t count, std::int64_t first_ms) {
  PhaseStat phase;
  phase.count = count;
  phase.total_ns = 1'000'000 * (ms * (count - 1) + first_ms);
  phase.histogram = {{histogram_bucket(1'000'000 * ms), count - 1},
                     {histogram_bucket(1'000'000 * first_ms), 1}};
  return phase;
}

// 40 mini-batches of 90 + 10 ms in 4 rounds of 250 + 130 + 100 + 20 ms, and a first one of each that took seconds.
TEST_CASE("a_finished_run_says_what_an_exchange_takes_whatever_its_first_one_took") {
  WorkerPhases worker;
  worker.totals[Phase::kComputeGrads] = each_of(90, 40, 4000);
  worker.totals[Phase::kBatch] = each_of(10, 40, 1000);
  worker.totals[Phase::kPsApplyGrads] = each_of(250, 4, 3000);
  worker.totals[Phase::kPsParam] = each_of(130, 4, 3000);
  worker.totals[Phase::kBarrier] = each_of(100, 4, 3000);
  worker.totals[Phase::kStep] = each_of(20, 4, 3000);
  const auto times = measured_times(std::vector{worker, worker});
  REQUIRE(times);
  CHECK(times->mini_batch == Approx(0.1).epsilon(0.016));
  CHECK(times->exchange == Approx(0.5).epsilon(0.016));
  CHECK_FALSE(measured_times({}));
}

TEST_CASE("rounds_gain_by_what_they_save_of_mini_batches_and_of_exchanges") {
  CHECK(serial_mini_batches(kRuns) == 1000);
  CHECK(speedup(1000, kRuns[1], 0.0) == 2.5);
  CHECK(speedup(1000, kRuns[2], 0.0) == 2.0);
  CHECK(*speedup(1000, kRuns[1], 1.0) == Approx(1000.0 / (11 * 40)));
  CHECK(*speedup(1000, kRuns[2], 50.0) == 1.0);
  CHECK_FALSE(speedup(1000, kRuns[3], 1.0));
}

// Of 2000 iterations each of 5 workers has 400.
TEST_CASE("whoever_never_got_there_may_have_had_fewer_mini_batches_than_one_worker_alone_needs") {
  CHECK(iterations_lacking(1000, kRuns, 2000) == 5000);
  CHECK(iterations_lacking(1000, kRuns, 4999) == 5000);
  CHECK_FALSE(iterations_lacking(1000, kRuns, 5000));
  CHECK_FALSE(iterations_lacking(1000, std::span(kRuns).first(3), 2000));
  CHECK_FALSE(without_gain(1000, kRuns[3], 4999));
  CHECK(without_gain(1000, kRuns[3], 5000));
  CHECK_FALSE(without_gain(1000, kRuns[2], 5000));
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
