// What may be said of runs, against published tables and examples worked by hand, and as properties.
#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "common/statistics/holm.h"
#include "common/statistics/paired.h"
#include "common/statistics/time_to_target.h"
#include "common/statistics/verdict.h"

namespace paceline::statistics {
namespace {

// Hours of additional sleep of ten patients under two drugs (Student 1908, "The probable error of a mean",
// section IX; Cushny and Peebles' data).
const std::vector<double> kFirstDrug{0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0};
const std::vector<double> kSecondDrug{1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4};

Sample sample(const std::vector<double>& values) {
  Sample s;
  for (const double value : values) s.push_back({s.size() + 1, value});
  return s;
}

std::vector<Evaluation> evaluations(const std::vector<double>& accuracies) {
  std::vector<Evaluation> all;
  for (const double accuracy : accuracies) all.push_back({10.0 * static_cast<double>(all.size()), accuracy});
  return all;
}

}  // namespace

TEST_CASE("t_quantiles_are_those_of_the_printed_tables") {
  // Two-sided 5 %, then one-sided 5 % and two-sided 1 %, three decimals as printed.
  CHECK(t_quantile(0.975, 1) == Approx(12.706).margin(5e-4));
  CHECK(t_quantile(0.975, 4) == Approx(2.776).margin(5e-4));
  CHECK(t_quantile(0.975, 9) == Approx(2.262).margin(5e-4));
  CHECK(t_quantile(0.975, 30) == Approx(2.042).margin(5e-4));
  CHECK(t_quantile(0.95, 10) == Approx(1.812).margin(5e-4));
  CHECK(t_quantile(0.995, 5) == Approx(4.032).margin(5e-4));
}

TEST_CASE("student_s_own_example_gives_its_published_interval") {
  const std::vector<Sample> drugs{sample(kFirstDrug), sample(kSecondDrug)};
  const auto compared = compare_pairs(drugs, Better::kLarger);
  REQUIRE(compared.size() == 1);
  const Estimate& e = compared[0].difference;  // mean 1.58, t = 4.0621 with 9 degrees, p = 0.002833
  CHECK(e.n == 10);
  CHECK(e.mean == Approx(1.58));
  CHECK(e.low() == Approx(0.7001142).epsilon(1e-6));
  CHECK(e.high() == Approx(2.4598858).epsilon(1e-6));
  CHECK(e.p == Approx(0.002833).epsilon(2e-4));
  CHECK(compared[0].verdict == Verdict::kSecondIsBetter);
  CHECK(compare_pairs(drugs, Better::kSmaller)[0].verdict == Verdict::kFirstIsBetter);
}

TEST_CASE("one_number_has_no_interval_and_numbers_that_do_not_scatter_have_a_point") {
  CHECK(estimate(std::vector{3.0}).half_width == std::numeric_limits<double>::infinity());
  CHECK(estimate(std::vector{3.0}).p == 1.0);
  CHECK(estimate(std::vector<double>{}).n == 0);
  const Estimate equal = estimate(std::vector{2.0, 2.0, 2.0});
  CHECK(equal.half_width == 0.0);
  CHECK(equal.p == 0.0);
  CHECK(estimate(std::vector{0.0, 0.0, 0.0}).p == 1.0);
}

TEST_CASE("of_many_samples_from_one_distribution_the_interval_holds_the_mean_in_95_of_100") {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal(40.0, 5.0);
  constexpr int kTrials = 20000;
  int inside = 0;
  for (int i = 0; i < kTrials; ++i) {
    std::vector<double> numbers(5);
    for (double& x : numbers) x = normal(random);
    const Estimate e = estimate(numbers);
    if (e.low() <= 40.0 && 40.0 <= e.high()) ++inside;
  }
  // Four standard errors of a share of 0.95 in 20,000.
  CHECK(std::abs(inside / static_cast<double>(kTrials) - 0.95) < 0.0062);
}

TEST_CASE("holm_s_correction_of_four_comparisons_worked_by_hand") {
  // Ascending: 0.005 x 4, 0.01 x 3, 0.03 x 2, 0.04 x 1 = 0.02, 0.03, 0.06, 0.04, which must not fall: 0.06.
  const auto adjusted = holm_adjusted(std::vector{0.01, 0.04, 0.03, 0.005});
  CHECK(adjusted[0] == Approx(0.03));
  CHECK(adjusted[1] == Approx(0.06));
  CHECK(adjusted[2] == Approx(0.06));
  CHECK(adjusted[3] == Approx(0.02));
  CHECK(holm_adjusted(std::vector{0.7, 0.9}) == std::vector{1.0, 1.0});
  CHECK(holm_adjusted(std::vector<double>{}).empty());
}

TEST_CASE("holm_lies_between_no_correction_and_bonferroni_s_and_keeps_the_order") {
  CHECK(rc::check([](const std::vector<std::uint16_t>& raw) {
    std::vector<double> p;
    for (const std::uint16_t x : raw) p.push_back(x / 65535.0);
    const auto adjusted = holm_adjusted(p);
    for (std::size_t i = 0; i < p.size(); ++i) {
      RC_ASSERT(adjusted[i] >= p[i]);
      RC_ASSERT(adjusted[i] <= std::min(1.0, p[i] * static_cast<double>(p.size())));
      for (std::size_t j = 0; j < p.size(); ++j) {
        if (p[i] <= p[j]) RC_ASSERT(adjusted[i] <= adjusted[j]);
      }
    }
  }));
}

TEST_CASE("four_seeds_give_figures_but_no_verdict_and_five_do") {
  const std::vector<Sample> four{sample({10, 11, 12, 10}), sample({20, 21.1, 22, 20})};
  const auto few = compare_pairs(four, Better::kSmaller);
  CHECK(few[0].verdict == Verdict::kTooFewSeeds);
  CHECK(few[0].difference.mean == Approx(10.025));
  CHECK(few[0].adjusted_p < 1e-5);
  const std::vector<Sample> five{sample({10, 11, 12, 10, 11}), sample({20, 21.1, 22, 20, 21})};
  CHECK(compare_pairs(five, Better::kSmaller)[0].verdict == Verdict::kFirstIsBetter);
}

TEST_CASE("a_difference_that_pairs_show_is_not_lost_in_the_scatter_between_seeds") {
  // Seeds differ by hundreds, the policies by one.
  const std::vector<Sample> samples{sample({100, 300, 700, 200, 500, 900}),
                                    sample({101, 301.1, 700.9, 201, 501, 901.2})};
  CHECK(compare_pairs(samples, Better::kSmaller)[0].verdict == Verdict::kFirstIsBetter);
}

TEST_CASE("seeds_that_only_one_policy_has_are_left_out_of_the_pair") {
  std::vector<Sample> samples{sample({1, 2, 3, 4, 5, 6}), sample({2, 3, 4, 5, 6})};
  samples[1].push_back({9, 1000.0});
  const auto compared = compare_pairs(samples, Better::kSmaller);
  CHECK(compared[0].difference.n == 5);
  CHECK(compared[0].difference.mean == 1.0);
}

TEST_CASE("one_run_that_never_reached_the_target_blocks_every_verdict_on_its_policy") {
  std::vector<Sample> samples{sample({10, 11, 12, 10, 11, 10}), sample({20, 21, 22.1, 20, 21, 20}),
                              sample({30, 31, 32, 30.1, 31, 30})};
  CHECK(winner(3, compare_pairs(samples, Better::kSmaller)) == std::size_t{0});
  samples[1][3].value.reset();
  const auto compared = compare_pairs(samples, Better::kSmaller);
  CHECK(compared[0].verdict == Verdict::kCensored);
  CHECK(compared[0].difference.n == 5);
  CHECK(compared[1].verdict == Verdict::kFirstIsBetter);  // 0 and 2
  CHECK(compared[2].verdict == Verdict::kCensored);
  CHECK_FALSE(winner(3, compared).has_value());
}

TEST_CASE("inside_one_point_is_equivalent_also_when_certain_and_outside_undecided") {
  const Sample first = sample({80.0, 80.5, 81.0, 80.2, 80.4});
  const auto verdict = [&](const std::vector<double>& second) {
    const std::vector<Sample> samples{first, sample(second)};
    return compare_pairs(samples, Better::kLarger, 1.0)[0];
  };
  CHECK(verdict({80.1, 80.3, 81.1, 80.3, 80.2}).verdict == Verdict::kEquivalent);
  CHECK(verdict({82.0, 78.0, 83.0, 79.0, 80.0}).verdict == Verdict::kUndecided);
  const Comparison small = verdict({80.31, 80.8, 81.3, 80.5, 80.7});
  CHECK(small.verdict == Verdict::kSecondIsBetter);
  CHECK(small.inside_margin);
  CHECK_FALSE(verdict({83.0, 83.6, 84.0, 83.2, 83.4}).inside_margin);
}

TEST_CASE("a_difference_that_would_count_alone_does_not_among_many") {
  // p = 0.03 or so of the one pair; with five more policies there are fifteen.
  const Sample a = sample({10, 11, 12, 10, 11}), b = sample({10.4, 12.2, 12.3, 11.5, 11.6});
  const std::vector<Sample> alone{a, b};
  const Comparison pair = compare_pairs(alone, Better::kSmaller)[0];
  CHECK(pair.verdict == Verdict::kFirstIsBetter);
  const std::vector<Sample> many{a, b, a, a, a, a};
  const Comparison one = compare_pairs(many, Better::kSmaller)[0];
  CHECK(one.difference.p == pair.difference.p);
  CHECK(one.verdict == Verdict::kUndecided);
}

TEST_CASE("copies_of_one_number_have_a_mean_and_no_interval") {
  const std::vector<double> copies{19.99, 19.99, 19.99, 19.99, 19.99}, zeros{0, 0, 0}, one{7}, two{7, 8};
  CHECK(estimate(copies).mean == Approx(19.99));
  CHECK_FALSE(estimate(copies).has_interval());
  CHECK_FALSE(estimate(zeros).has_interval());
  CHECK_FALSE(estimate(one).has_interval());
  CHECK(estimate(two).has_interval());
}

TEST_CASE("seeds_that_draw_nothing_are_one_run_and_have_no_p_whatever_their_number") {
  const std::vector<Sample> copies{sample({100, 100, 100, 100, 100}), sample({99.9, 99.9, 99.9, 99.9, 99.9}),
                                   sample({50, 51, 52.1, 50, 51})};
  const auto compared = compare_pairs(copies, Better::kSmaller, 1.0);
  CHECK(compared[0].verdict == Verdict::kNoScatter);
  CHECK_FALSE(compared[0].inside_margin);
  CHECK(compared[0].difference.mean == Approx(-0.1));
  CHECK(compared[1].verdict == Verdict::kSecondIsBetter);
  // Two pairs are corrected for, not three.
  CHECK(compared[1].adjusted_p <= 2 * std::max(compared[1].difference.p, compared[2].difference.p));
  CHECK(winner(3, compared) == std::size_t{2});
  CHECK_FALSE(winner(2, compare_pairs(std::span(copies).first(2), Better::kSmaller)).has_value());
  // Seeds that scatter alike under both, but for rounding.
  const std::vector<Sample> shifted{sample({1e6, 1e6 + 0.1, 1e6 + 0.7, 1e6, 1e6}),
                                    sample({1e6 + 0.3, 1e6 + 0.4, 1e6 + 1.0, 1e6 + 0.3, 1e6 + 0.3})};
  CHECK(compare_pairs(shifted, Better::kSmaller)[0].verdict == Verdict::kNoScatter);
}

TEST_CASE("what_a_difference_is_a_part_of_is_the_mean_of_its_own_seeds") {
  // Seed 6 is the first's alone, and slow.
  const std::vector<Sample> samples{sample({10, 11, 12, 10, 12, 500}), sample({5, 6.1, 7, 5, 7})};
  const Comparison c = compare_pairs(samples, Better::kSmaller)[0];
  CHECK(c.first_mean == Approx(11.0));
  CHECK(c.difference.mean == Approx(-4.98));
}

TEST_CASE("there_is_no_winner_where_the_two_best_are_not_told_apart_and_none_of_one") {
  const std::vector<Sample> samples{sample({10, 11, 12, 10, 11}), sample({10.1, 10.9, 12.1, 9.9, 11}),
                                    sample({20, 21, 22, 20.1, 21})};
  CHECK_FALSE(winner(3, compare_pairs(samples, Better::kSmaller)).has_value());
  CHECK_FALSE(winner(1, {}).has_value());
}

TEST_CASE("the_target_is_reached_when_the_mean_of_three_evaluations_is_there_not_when_one_is") {
  CHECK_FALSE(time_to_target(evaluations({0.1, 0.9, 0.2, 0.3}), 0.6).has_value());
  CHECK(time_to_target(evaluations({0.5, 0.7, 0.6, 0.8}), 0.6) == 20.0);
  CHECK(time_to_target(evaluations({0.1, 0.5, 0.6, 0.7, 0.1}), 0.6) == 30.0);
  CHECK_FALSE(time_to_target(evaluations({0.9, 0.9}), 0.6).has_value());  // two are not three
  CHECK(time_to_target(evaluations({0.7, 0.7, 0.7}), 0.7) == 20.0);  // though the sum is 2.0999999999999996
  CHECK_FALSE(time_to_target(evaluations({0.7, 0.7, 0.6999}), 0.7).has_value());
}

}  // namespace paceline::statistics
