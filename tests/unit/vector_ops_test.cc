// The loops over flat vectors: the weighted mean, differences, and the search for a NaN.
#include "common/params/vector_ops.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

using namespace paceline;

namespace {
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
}  // namespace

TEST_CASE("a_mean_is_weighted_by_samples") {
  std::vector<float> sum(2, 99.0F);  // whatever the buffer held does not matter
  begin_sum(sum, std::vector<float>{1.0F, 10.0F}, 16.0F);
  add_weighted(sum, std::vector<float>{4.0F, 40.0F}, 32.0F);
  scale(sum, 1.0F / 48.0F);
  CHECK(sum[0] == Approx(3.0F));
  CHECK(sum[1] == Approx(30.0F));
}

TEST_CASE("the_mean_of_equal_gradients_is_the_gradient_bit_for_bit") {
  // 16 workers with mini-batch 16: powers of two, so that scaling does not round.
  const std::vector<float> gradient = {0.1F, -1e-7F, 3.3e12F};
  std::vector<float> sum(3);
  begin_sum(sum, gradient, 16.0F);
  add_weighted(sum, gradient, 16.0F);
  scale(sum, 1.0F / 32.0F);
  CHECK(sum == gradient);
}

TEST_CASE("tails_get_the_same_treatment_at_every_length") {
  for (std::size_t n = 0; n < 70; ++n) {
    std::vector<float> a(n), b(n), sum(n);
    for (std::size_t i = 0; i < n; ++i) {
      a[i] = 1.0F / static_cast<float>(i + 1);
      b[i] = 0.3F * static_cast<float>(i);
    }
    begin_sum(sum, a, 0.7F);
    add_weighted(sum, b, 1.1F);
    subtract(sum, sum, a);
    for (std::size_t i = 0; i < n; ++i) {
      const float scaled = 0.7F * a[i];
      const float added = scaled + 1.1F * b[i];
      REQUIRE(sum[i] == added - a[i]);
    }
  }
}

TEST_CASE("the_first_value_that_is_not_finite_is_found_wherever_it_is") {
  for (std::size_t n : {1, 5, 1023, 1024, 1025, 5000}) {
    std::vector<float> values(n, std::numeric_limits<float>::max());
    values[0] = std::numeric_limits<float>::denorm_min();
    REQUIRE(first_non_finite(values) == std::nullopt);
    for (std::size_t at : {std::size_t{0}, n / 2, n - 1}) {
      for (float bad : {kNan, -kNan, kInfinity, -kInfinity}) {
        std::vector<float> faulty = values;
        faulty[n - 1] = kInfinity;
        faulty[at] = bad;
        REQUIRE(first_non_finite(faulty) == static_cast<std::int64_t>(at));
      }
    }
  }
  CHECK(first_non_finite({}) == std::nullopt);
}

TEST_CASE("a_part_is_copied_whether_the_whole_outgrows_the_cache_or_not") {
  std::vector<float> in(1000);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
  for (const std::int64_t whole : {std::int64_t{1000}, kCachedFloatsMax + 1}) {
    std::vector<float> out(1002, -1.0F);
    copy_part(std::span(out).subspan(1, 1000), in, whole);
    CHECK(std::equal(in.begin(), in.end(), out.begin() + 1));
    CHECK((out.front() == -1.0F && out.back() == -1.0F));
  }
}
