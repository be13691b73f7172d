// Pipelines as tables: what planners plan, what the checker refuses, and how long plans take in virtual time.
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "common/schedule/pipeline.h"
#include "common/schedule/timeline.h"

namespace paceline::schedule {
namespace {

using Pass = PipelineRow::Pass;

constexpr PipelineKind kKinds[] = {PipelineKind::kGpipe, PipelineKind::kOneForwardOneBackward};

PipelinePlan planned(PipelineKind kind, std::uint32_t stages, std::uint32_t micro_batches,
                     bool rematerialize) {
  const std::vector<std::int64_t> one(rematerialize ? stages : 0, 1);
  return plan_pipeline(kind, stages, micro_batches, one);
}

TEST_CASE("every_pipeline_is_accepted_and_keeps_what_it_says") {
  for (const PipelineKind kind : kKinds) {
    for (std::uint32_t stages = 1; stages <= 9; ++stages) {
      for (std::uint32_t micro_batches = 1; micro_batches <= 17; ++micro_batches) {
        for (const bool rematerialize : {false, true}) {
          const PipelinePlan plan = planned(kind, stages, micro_batches, rematerialize);
          INFO(stages << " stages, " << micro_batches << " micro-batches, " << rematerialize);
          REQUIRE(check(plan).message() == "");
          for (std::uint32_t s = 0; s < stages; ++s) {
            const std::int64_t most =
                kind == PipelineKind::kGpipe ? micro_batches : std::min(stages - s, micro_batches);
            CHECK(kept(plan.stages[s]) == Kept{most, rematerialize ? 1 : most});
          }
        }
      }
    }
  }
}

TEST_CASE("two_stages_and_three_micro_batches") {
  const auto rows = [](PipelineKind kind, std::uint32_t stage, bool rematerialize) {
    return to_string(planned(kind, 2, 3, rematerialize).stages[stage]);
  };
  CHECK(rows(PipelineKind::kGpipe, 0, false) == "F0 F1 F2 B2 B1 B0");
  CHECK(rows(PipelineKind::kOneForwardOneBackward, 0, false) == "F0 F1 B0 F2 B1 B2");
  CHECK(rows(PipelineKind::kOneForwardOneBackward, 1, false) == "F0 B0 F1 B1 F2 B2");
  CHECK(rows(PipelineKind::kGpipe, 1, true) == "F0 F1 F2 B2 R1 B1 R0 B0");  // never the last
  const PipelinePlan interleaved = plan_pipeline(PipelineKind::kInterleaved, 2, 2, {}, 2);
  CHECK(to_string(interleaved.stages[0]) == "F0 F1 F0.1 F1.1 B0.1 B1.1 B0 B1");
  CHECK(to_string(interleaved.stages[1]) == "F0 F1 F0.1 B0.1 F1.1 B1.1 B0 B1");
}

// Narayanan et al. 2021, section 2.2: chunks in turn, K micro-batches through each; memory as Megatron-LM has it.
TEST_CASE("interleaved_stages_are_accepted_and_keep_what_they_say") {
  for (std::uint32_t chunks = 2; chunks <= 3; ++chunks) {
    for (std::uint32_t stages = 1; stages <= 6; ++stages) {
      for (std::uint32_t micro_batches = stages; micro_batches <= 4 * stages; micro_batches += stages) {
        INFO(stages << " stages of " << chunks << " chunks, " << micro_batches << " micro-batches");
        const PipelinePlan plan =
            plan_pipeline(PipelineKind::kInterleaved, stages, micro_batches, {}, chunks);
        const std::vector<std::int64_t> one(std::size_t{stages} * chunks, 1);
        const PipelinePlan again =
            plan_pipeline(PipelineKind::kInterleaved, stages, micro_batches, one, chunks);
        REQUIRE(check(plan).message() == "");
        REQUIRE(check(again).message() == "");
        for (std::uint32_t s = 0; s < stages; ++s) {
          std::int64_t most = 0, now = 0;
          for (const PipelineRow& row : plan.stages[s]) {
            now += row.pass == Pass::kForward ? 1 : -1;
            most = std::max(most, now);
          }
          CHECK(most == std::min((chunks - 1) * stages + 2 * (stages - 1 - s) + 1, chunks * micro_batches));
          for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
            CHECK(kept(plan.stages[s], chunk) == plan.bounds[s + chunk * stages]);
            CHECK(kept(again.stages[s], chunk).activations == 1);
          }
        }
      }
    }
  }
  CHECK(check_has_plan(PipelineKind::kInterleaved, 4, 6).message() ==
        "got 6, expected a multiple of 4 stages");
  CHECK(check_has_plan(PipelineKind::kOneForwardOneBackward, 4, 6).is_ok());
}

// What is used next is kept: under gpipe the last ones, under 1f1b the first.
TEST_CASE("a_bound_computes_as_few_again_as_it_can") {
  const auto rows = [](PipelineKind kind, std::int64_t most) {
    const std::vector<std::int64_t> room(3, most);
    const PipelinePlan plan = plan_pipeline(kind, 3, 4, room);
    CHECK(check(plan).message() == "");
    CHECK(kept(plan.stages[0]).activations == most);
    return to_string(plan.stages[0]);
  };
  CHECK(rows(PipelineKind::kGpipe, 4) == "F0 F1 F2 F3 B3 B2 B1 B0");
  CHECK(rows(PipelineKind::kGpipe, 3) == "F0 F1 F2 F3 B3 B2 B1 R0 B0");
  CHECK(rows(PipelineKind::kGpipe, 2) == "F0 F1 F2 F3 B3 B2 R1 B1 R0 B0");
  CHECK(rows(PipelineKind::kOneForwardOneBackward, 2) == "F0 F1 F2 B0 F3 R1 B1 B2 R3 B3");
}

TEST_CASE("a_broken_plan_is_refused_at_its_row") {
  const PipelinePlan good = plan_pipeline(PipelineKind::kGpipe, 2, 3);
  const auto refusal = [&good](auto&& breaks) {
    PipelinePlan plan = good;
    breaks(plan);
    return check(plan).message();
  };
  using Plan = PipelinePlan;
  CHECK(refusal([](Plan& p) { p.stages[1].pop_back(); }) == "stage 1: micro-batch 0 never goes back");
  CHECK(refusal([](Plan& p) { p.stages[1].erase(p.stages[1].begin()); }) ==
        "stage 1, row 4 (B0): backward before forward");
  CHECK(refusal([](Plan& p) { p.stages[0].push_back({Pass::kBackward, 0}); }) ==
        "stage 0, row 6 (B0): backward once more");
  CHECK(refusal([](Plan& p) { p.stages[0].insert(p.stages[0].begin(), {Pass::kForward, 1}); }) ==
        "stage 0, row 2 (F1): forward once more");
  CHECK(refusal([](Plan& p) { p.stages[0][0].micro_batch = 3; }) ==
        "stage 0, row 0 (F3): expected one of 3 micro-batches");
  // Stage 1 waits for micro-batch 1 while 0 is what arrives.
  CHECK(refusal([](Plan& p) { std::swap(p.stages[1][0], p.stages[1][1]); }) ==
        "stage 0, row 3 (B2): waits for what never arrives, or not in this order");
  // Stage 0 wants its first gradient before stage 1 has what that is made of.
  CHECK(refusal([](Plan& p) {
          std::rotate(p.stages[0].begin() + 2, p.stages[0].end() - 1, p.stages[0].end());
        }) == "stage 0, row 2 (B0): waits for what never arrives, or not in this order");
  CHECK(refusal([](Plan& p) { p.bounds[0].inputs = 2; }) ==
        "stage 0: keeps 3 micro-batches, 3 with activations, expected at most 2 and 3");
  CHECK(refusal([](Plan& p) { p.stages[0].insert(p.stages[0].begin() + 3, {Pass::kRecompute, 2}); }) ==
        "stage 0, row 3 (R2): it is there already");
  CHECK(refusal([](Plan& p) { p.stages[0].push_back({Pass::kRecompute, 1}); }) ==
        "stage 0, row 4 (B1): its activations are not there");
}

TEST_CASE("a_broken_plan_of_chunks_is_refused_at_its_row") {
  const auto refusal = [](auto&& breaks) {
    PipelinePlan plan = plan_pipeline(PipelineKind::kInterleaved, 2, 2, {}, 2);
    breaks(plan);
    return check(plan).message();
  };
  using Plan = PipelinePlan;
  CHECK(refusal([](Plan& p) { p.stages[1].pop_back(); }) ==
        "stage 1, chunk 0: micro-batch 1 never goes back");
  CHECK(refusal([](Plan& p) { p.stages[0][2].chunk = 2; }) ==
        "stage 0, row 2 (F0.2): expected one of 2 chunks");
  CHECK(refusal([](Plan& p) { p.bounds[2].inputs = 1; }) ==
        "stage 0, chunk 1: keeps 2 micro-batches, 2 with activations, expected at most 1 and 2");
  // The first stage's second chunk comes after the last stage's first one.
  CHECK_THAT(refusal([](Plan& p) {
               std::rotate(p.stages[0].begin(), p.stages[0].begin() + 2, p.stages[0].begin() + 4);
             }),
             Catch::Matchers::StartsWith("stage 0, row 0 (F0.1): waits for what never arrives"));
}

// Huang et al. 2018, section 2.3.
TEST_CASE("the_bubble_of_equal_stages_is_the_formula") {
  for (const PipelineKind kind : kKinds) {
    for (const std::uint32_t stages : {4U, 8U, 16U}) {
      for (const std::uint32_t micro_batches : {stages, 4 * stages, 8 * stages}) {
        const std::vector<StageTimes> equal(stages, StageTimes{1.0, 2.0});
        const PipelineTimes ran = times(plan_pipeline(kind, stages, micro_batches), equal);
        CHECK(ran.bubble_share() == Approx(bubble_formula(stages, micro_batches)));
        CHECK(ran.step == Approx(3.0 * (micro_batches + stages - 1)));
      }
    }
  }
}

// Narayanan et al. 2021, section 2.2: a v-th of it.
TEST_CASE("the_bubble_of_equal_chunks_is_the_formula") {
  for (const std::uint32_t chunks : {2U, 4U}) {
    for (const std::uint32_t stages : {2U, 4U, 8U}) {
      for (const std::uint32_t micro_batches : {stages, 4 * stages}) {
        const std::vector<StageTimes> equal(std::size_t{stages} * chunks, StageTimes{1.0, 2.0});
        const PipelinePlan plan =
            plan_pipeline(PipelineKind::kInterleaved, stages, micro_batches, {}, chunks);
        CHECK(times(plan, equal).bubble_share() == Approx(bubble_formula(stages, micro_batches, chunks)));
      }
    }
  }
  CHECK(bubble_formula(4, 8, 2) == Approx(3.0 / 19.0));
}

// Recomputing takes a forward pass, but for the last micro-batch, and what of it the stage would wait anyway is free.
TEST_CASE("a_recomputation_begins_before_what_comes_back") {
  const std::vector<StageTimes> equal(2, StageTimes{1.0, 2.0});
  const double kept_step = times(planned(PipelineKind::kGpipe, 2, 2, false), equal).step;
  const PipelineTimes again = times(planned(PipelineKind::kGpipe, 2, 2, true), equal);
  CHECK(kept_step == Approx(9.0));
  CHECK(again.step == Approx(10.0));
  CHECK(again.busy == std::vector<double>{7.0, 7.0});
}

TEST_CASE("messages_take_their_time_one_behind_the_other") {
  const std::vector<StageTimes> equal(2, StageTimes{1.0, 2.0});
  const std::vector<double> begins = {0.0, 4.0};
  const std::vector<StageLink> link = {{0.5, 2.0, 0.25}};
  const PipelineTimes ran = times(plan_pipeline(PipelineKind::kGpipe, 2, 2), equal, {}, begins, link);
  // F0 leaves at 1 and is there at 3.5, F1 leaves behind it and is there at 5.5; B1 is back at 9.25.
  CHECK(ran.rows[1][0].begin == Approx(4.0));
  CHECK(ran.rows[1][1].begin == Approx(5.5));
  CHECK(ran.rows[0][2].begin == Approx(9.25));
  CHECK(ran.ends(0) == Approx(13.25));
}

// What goes on from the first stage to the second and what goes back there pass one connection.
TEST_CASE("between_two_stages_of_several_chunks_a_direction_is_one_link") {
  const std::vector<StageTimes> equal(4, StageTimes{1.0, 1.0});
  const std::vector<StageLink> links(3, StageLink{0.0, 10.0, 10.0});
  CHECK(times(plan_pipeline(PipelineKind::kInterleaved, 2, 8, {}, 2), equal, {}, {}, links).step >
        3 * 8 * 10.0);
}

TEST_CASE("a_timeline_is_the_plan_in_proportion") {
  const std::vector<StageTimes> equal(2, StageTimes{1.0, 2.0});
  CHECK(timeline(times(plan_pipeline(PipelineKind::kGpipe, 2, 2), equal), 27) ==
        "stage 0  F0-F1-.........B1----B0----\n"
        "stage 1  ...F0-F1-B1----B0----......\n");
}

// Which pass it is can be read of each, however short; what is at the same time is in one column.
TEST_CASE("a_timeline_names_passes_that_are_shorter_than_their_names") {
  const std::vector<StageTimes> unequal = {{0.01, 0.02}, {1.0, 2.0}};
  CHECK(timeline(times(plan_pipeline(PipelineKind::kGpipe, 2, 3), unequal), 36) ==
        "stage 0  F0-F1-F2-...................B2-.\n"
        "stage 1  ...F0--------F1--F2--B2-----B1--\n"
        "\n"
        "stage 0  ......B1-.......B0-\n"
        "stage 1  ------B0--------...\n");
  // F10 is not drawn as F1.
  const std::vector<StageTimes> one = {{1.0, 1.0}};
  CHECK_THAT(timeline(times(plan_pipeline(PipelineKind::kOneForwardOneBackward, 1, 11), one), 44),
             Catch::Contains("F10-B10-"));
}

TEST_CASE("a_long_timeline_goes_on_in_blocks_that_cut_no_name") {
  const std::vector<StageTimes> chunks(4, StageTimes{1.0, 1.0});
  const PipelineTimes ran = times(plan_pipeline(PipelineKind::kInterleaved, 2, 4, {}, 2), chunks);
  CHECK(timeline(ran, 30) ==
        "stage 0  F0-F1-F0.1-F1.1-F2---B0.1-F3--\n"
        "stage 1  ...F0-F1---F0.1-B0.1-F1.1-B1.1\n"
        "\n"
        "stage 0  -B1.1-F2.1-B0-F3.1-B1---.....\n"
        "stage 1  -F2---B0---F3-B1---F2.1-B2.1-\n"
        "\n"
        "stage 0  B2.1-.....B3.1-B2-B3-\n"
        "stage 1  F3.1-B3.1-B2---B3-...\n");
  const PipelineTimes many = times(plan_pipeline(PipelineKind::kInterleaved, 2, 64, {}, 2), chunks);
  CHECK_THAT(timeline(many, 30), Catch::Contains(" columns left out)\n\nstage 0  "));
}

TEST_CASE("a_step_of_no_length_has_no_timeline") {
  const std::vector<StageTimes> none(2, StageTimes{0.0, 0.0});
  CHECK(timeline(times(plan_pipeline(PipelineKind::kGpipe, 2, 2), none), 27).empty());
}

TEST_CASE("micro_batches_differ_by_a_sample_at_most") {
  CHECK(micro_batch_sizes(11, 4) == std::vector<std::int64_t>{3, 3, 3, 2});
  CHECK(micro_batch_sizes(8, 8) == std::vector<std::int64_t>(8, 1));
}

}  // namespace
}  // namespace paceline::schedule
