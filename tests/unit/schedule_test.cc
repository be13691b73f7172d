// Learning-rate schedules, at their boundaries.
#include "common/params/schedule.h"

#include <catch2/catch.hpp>

using namespace paceline;

namespace {
OptimizerSection with(ScheduleKind kind, std::int64_t warmup_versions = 0) {
  OptimizerSection section;
  section.lr = 0.4;
  section.schedule.kind = kind;
  section.schedule.warmup_versions = warmup_versions;
  return section;
}
double rate(const OptimizerSection& section, std::int64_t version) {
  return learning_rate(section, Version(version), 12);
}
}  // namespace

TEST_CASE("constant_is_the_learning_rate_at_every_version") {
  const OptimizerSection section = with(ScheduleKind::kConstant);
  CHECK(rate(section, 0) == 0.4);
  CHECK(rate(section, 1'000'000) == 0.4);
}

TEST_CASE("warm_up_rises_linearly_from_a_share_of_the_rate_to_the_rate") {
  const OptimizerSection section = with(ScheduleKind::kConstant, 4);
  CHECK(rate(section, 0) == Approx(0.1));
  CHECK(rate(section, 2) == Approx(0.3));
  CHECK(rate(section, 3) == 0.4);
  CHECK(rate(section, 4) == 0.4);
}

TEST_CASE("step_multiplies_at_each_multiple_counted_from_version_zero") {
  OptimizerSection section = with(ScheduleKind::kStep, 2);
  section.schedule.step_versions = 5;
  section.schedule.step_factor = 0.5;
  CHECK(rate(section, 0) == Approx(0.2));
  CHECK(rate(section, 4) == 0.4);
  CHECK(rate(section, 5) == 0.2);
  CHECK(rate(section, 9) == 0.2);
  CHECK(rate(section, 10) == 0.1);
}

TEST_CASE("cosine_falls_from_the_end_of_the_warm_up_to_the_planned_versions") {
  const OptimizerSection section = with(ScheduleKind::kCosine, 4);
  CHECK(rate(section, 3) == 0.4);
  CHECK(rate(section, 4) == 0.4);
  CHECK(rate(section, 8) == Approx(0.2));
  CHECK(rate(section, 11) == Approx(0.4 * 0.03806).epsilon(1e-3));  // (1 + cos(7/8 pi)) / 2
  CHECK(rate(section, 12) == 0.0);
  CHECK(rate(section, 100) == 0.0);
}

TEST_CASE("cosine_ends_where_total_versions_says_at_the_final_factor") {
  OptimizerSection section = with(ScheduleKind::kCosine);
  section.schedule.total_versions = 20;
  section.schedule.final_factor = 0.25;
  CHECK(rate(section, 10) == Approx(0.25));  // half-way between 0.4 and 0.1
  CHECK(rate(section, 20) == Approx(0.1));
  CHECK(rate(section, 21) == Approx(0.1));
}

TEST_CASE("a_run_that_ends_within_its_warm_up_only_warms_up") {
  const OptimizerSection section = with(ScheduleKind::kCosine, 12);
  CHECK(rate(section, 11) == 0.4);
  CHECK(rate(section, 12) == 0.0);
}

// Goyal et al., 2017, 2.2: from the small mini-batch's rate to the large one's, a little with each iteration.
TEST_CASE("the_rate_follows_the_mini_batch_and_warms_up_from_the_base_rate") {
  OptimizerSection section = with(ScheduleKind::kConstant, 4);
  section.schedule.scale = RateScale::kLinear;
  section.schedule.scale_factor = 8.0;  // 8 x 256 samples
  CHECK(rate(section, 0) == Approx(0.4));
  CHECK(rate(section, 1) == Approx(0.4 + 0.25 * 2.8));
  CHECK(rate(section, 3) == Approx(0.4 + 0.75 * 2.8));
  CHECK(rate(section, 4) == Approx(3.2));
  section.schedule.warmup = WarmUp::kConstant;
  CHECK(rate(section, 0) == Approx(0.4));
  CHECK(rate(section, 3) == Approx(0.4));
  CHECK(rate(section, 4) == Approx(3.2));
  section.schedule.warmup_factor = 0.5;
  CHECK(rate(section, 3) == Approx(1.6));
  section.schedule.warmup = WarmUp::kGradual;
  CHECK(rate(section, 1) == Approx(1.6 + 0.25 * 1.6));
}

TEST_CASE("a_mini_batch_smaller_than_the_base_one_never_begins_above_its_rate") {
  OptimizerSection section = with(ScheduleKind::kConstant, 4);
  section.schedule.scale = RateScale::kLinear;
  section.schedule.scale_factor = 0.5;
  CHECK(rate(section, 0) == Approx(0.2));
  CHECK(rate(section, 4) == Approx(0.2));
}

TEST_CASE("poly_falls_from_the_end_of_the_warm_up_to_the_final_factor") {
  OptimizerSection section = with(ScheduleKind::kPoly, 4);
  section.schedule.power = 2.0;
  CHECK(rate(section, 3) == 0.4);
  CHECK(rate(section, 4) == 0.4);
  CHECK(rate(section, 8) == Approx(0.1));  // half is left, squared
  CHECK(rate(section, 12) == 0.0);
  section.schedule.final_factor = 0.1;
  CHECK(rate(section, 8) == Approx(0.4 * (0.1 + 0.9 * 0.25)));
  CHECK(rate(section, 13) == Approx(0.04));
}
