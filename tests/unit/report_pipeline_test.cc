// What `paceline report` says of a pipeline: its stages' times, and a step as it was run.
#include "tools/report_pipeline.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <nlohmann/json.hpp>

#include "common/config/load.h"
#include "common/files/atomic_file.h"
#include "common/page/page_pipeline.h"
#include "common/page/traced_step.h"
#include "tests/unit/report_fixture.h"
#include "tests/unit/temp_folder.h"

namespace paceline {
namespace {

using Pass = schedule::PipelineRow::Pass;

schedule::PassSpan pass(std::int64_t from, std::int64_t to, std::int64_t clock, Pass what,
                        std::uint32_t micro_batch) {
  return {
      Ticks(from * testing::kMs), std::chrono::milliseconds(to - from), Clock(clock), {what, micro_batch}};
}

// Two stages, two micro-batches, gpipe; `late`: by how much the last stage begins its backward passes later.
void add_step(trace::Trace& trace, std::int64_t begin, std::int64_t clock, std::int64_t late) {
  trace.stages.resize(2);
  trace.stages[1].node = NodeId(1);
  auto& first = trace.stages[0].spans;
  auto& second = trace.stages[1].spans;
  for (std::uint32_t m = 0; m < 2; ++m) {
    first.push_back(pass(begin + 3 * m, begin + 3 * m + 3, clock, Pass::kForward, m));
    second.push_back(pass(begin + 3 * m + 3, begin + 3 * m + 6, clock, Pass::kForward, m));
  }
  for (std::uint32_t m = 0; m < 2; ++m) {
    second.push_back(
        pass(begin + late + 6 * m + 9, begin + late + 6 * m + 15, clock, Pass::kBackward, 1 - m));
    first.push_back(
        pass(begin + late + 6 * m + 15, begin + late + 6 * m + 21, clock, Pass::kBackward, 1 - m));
  }
}

TEST_CASE("a_traced_pipeline_is_drawn_as_its_median_step") {
  trace::Trace trace;
  add_step(trace, 0, 0, 9);
  add_step(trace, 100, 1, 0);
  add_step(trace, 200, 2, 30);
  trace.stages[0].spans.push_back(pass(300, 303, 3, Pass::kForward, 0));  // a step that was cut off
  const auto step = median_step(trace, 2);
  REQUIRE(step);
  CHECK(step->clock == Clock(0));
  CHECK(step->of == 3);
  CHECK(step->times.step == Approx(0.036));
  CHECK(step->times.bubble_share() == Approx(0.5));

  FinishedRun run = testing::two_nodes("piped");
  CHECK(pipeline_report(run, &trace, {}, TextStyle::kPlain).empty());
  run.summary.pipeline = {2, 2, 0.25, {100, 50}, {1.5, 1.0}, {0.0, 0.5}, {0.25, 0.0}, {3, 7}, {84, 1234}};
  const std::string text = pipeline_report(run, &trace, {}, TextStyle::kPlain);
  using Catch::Contains;
  CHECK_THAT(text, Contains("pipeline: 2 stages, 2 micro-batches") &&
                       Contains("bubble 25.0 %, (K - 1) / (M + K - 1) = 33.3 %"));
  CHECK_THAT(text, Contains("1.500") && Contains("0.500") && Contains("0.250") && Contains("1234"));
  CHECK_THAT(text, Contains("the step of clock 0, the median of 3: 0.036 s, bubble 50.0 %") &&
                       Contains("\nstage 0  F0------F1------") &&
                       Contains("\nstage 1  ........F0------F1------"));
  CHECK_THAT(pipeline_report(run, &trace, {}, TextStyle::kMarkdown),
             Contains("\n```\nF forward, R forward once more"));
  CHECK_THAT(pipeline_report(run, nullptr, {}, TextStyle::kPlain), !Contains("the step of"));
}

TEST_CASE("the_page_has_the_median_step_pass_by_pass_and_of_too_many_passes_the_first") {
  trace::Trace trace;
  add_step(trace, 100, 1, 0);
  trace.stages[1].spans[0].row.chunk = 3;
  auto page = page_pipeline(trace, 2, 8);
  CHECK(page.at("step").get<double>() == Approx(0.027));
  CHECK(page.at("bubble").get<double>() == Approx(1.0 / 3.0));
  page.erase("step");
  page.erase("bubble");
  CHECK(page == nlohmann::ordered_json::parse(R"({"clock": 1, "of": 1, "passes": 8,
      "rows": [[[0, 0, 0, 3000, 0], [0, 1, 3000, 3000, 0], [2, 1, 15000, 6000, 0], [2, 0, 21000, 6000, 0]],
               [[0, 0, 3000, 3000, 3], [0, 1, 6000, 3000, 0], [2, 1, 9000, 6000, 0], [2, 0, 15000, 6000, 0]]]})"));
  const auto first = page_pipeline(trace, 2, 4);  // those that begin before the fifth does
  CHECK(first.at("passes") == 8);
  CHECK(first.at("rows").dump() ==
        "[[[0,0,0,3000,0],[0,1,3000,3000,0]],[[0,0,3000,3000,3],[0,1,6000,3000,0]]]");
  CHECK(page_pipeline(trace, 3, 8).is_null());
}

TEST_CASE("a_summary_that_does_not_say_the_same_of_each_stage_is_refused_and_the_rest_of_it_is_shown") {
  RunSummary whole;
  whole.pipeline = {2, 2, 0.25, {100, 50}, {1.5, 1.0}, {0.0, 0.5}, {0.25, 0.0}, {3, 7}, {84, 1234}};
  const auto read = parse_summary(to_json(whole));
  REQUIRE(read.is_ok());
  CHECK(read->pipeline->layers == whole.pipeline->layers);
  CHECK(read->pipeline->parameters == whole.pipeline->parameters);
  RunSummary wrong = whole;
  wrong.pipeline->parameters.pop_back();
  CHECK(parse_summary(to_json(wrong)).status().message() == "pipeline.parameters: 1 numbers, expected 2");
  wrong = whole;
  wrong.pipeline->stages = 1'000'000'000;
  CHECK(parse_summary(to_json(wrong)).status().message() ==
        "pipeline.peak_activation_bytes: 2 numbers, expected 1000000000");
  FinishedRun run = testing::two_nodes("piped");
  run.summary.pipeline = wrong.pipeline;
  const testing::TempFolder folder;
  testing::write_run(folder.path(), run);
  const testing::Outcome reported = testing::run_report({folder.path().string()});
  CHECK(reported.status == 0);
  CHECK_THAT(reported.out, !Catch::Contains("micro-batches"));
}

// Of a chunk each: 0 and 2 are the first stage's.
TEST_CASE("of_stages_with_chunks_the_report_has_the_sums_and_no_advice_for_a_resume") {
  FinishedRun run = testing::two_nodes("piped");
  run.summary.pipeline = {
      2, 4, 0.25, {100, 50}, {1.5, 1.0}, {0.5, 0.5}, {0.25, 0.0}, {1, 2, 3, 5}, {10, 200, 3000, 40000}, 2};
  const auto read = parse_summary(to_json(run.summary));
  REQUIRE(read.status().message() == "");
  CHECK(read->pipeline->layers == run.summary.pipeline->layers);
  CHECK(read->pipeline->chunks == 2);
  const MeasuredCut cut{{1.0, 0.5}, {2, 1, 5, 3}, 0.5};
  const std::string text = pipeline_report(run, nullptr, cut, TextStyle::kPlain);
  using Catch::Contains;
  CHECK_THAT(text, Contains("2 stages of 2 chunks, 4 micro-batches") &&
                       Contains("(K - 1) / (v M + K - 1) = 11.1 %") && Contains(" 3010 ") &&
                       Contains(" 40200 "));
  CHECK_THAT(text,
             Contains("stage speeds 1, 0.5: pipeline.balance: [2, 1, 5, 3] would take 0.50 of the slowest "
                      "stage's time, in a new run\n"));
  RunSummary wrong = run.summary;
  wrong.pipeline->layers.pop_back();
  CHECK(parse_summary(to_json(wrong)).status().message() == "pipeline.layers: 3 numbers, expected 4");
  wrong = run.summary;
  for (const std::int64_t chunks : {std::int64_t{0}, std::int64_t{65}, std::int64_t{1} << 62}) {
    wrong.pipeline->chunks = chunks;
    CHECK(parse_summary(to_json(wrong)).status().message() ==
          "pipeline.chunks: " + std::to_string(chunks) + ", expected 1 to 64");
  }
}

// Four equal layers, and some that cost next to nothing.
TEST_CASE("a_stage_that_is_slower_than_its_products_say_would_have_fewer") {
  const auto parsed = parse_config(
      "{cluster: {nodes: 2}, pipeline: {stages: 2, micro_batches: 2, balance: [2, 4]}, train: "
      "{total_iterations: 40, model: layers, layers: [{kind: conv, out: 3, kernel: 3}, {kind: conv, out: 3, "
      "kernel: 3}, {kind: conv, out: 3, kernel: 3}, {kind: conv, out: 3, kernel: 3}, {kind: "
      "global_average_pool}, {kind: dense, out: 10}]}}",
      "run.yaml", {});
  REQUIRE(parsed.status().message() == "");
  RunConfig config = *parsed;
  const PipelineSummary ran{2, 2, 0.25, {100, 50}, {1.0, 3.0}, {0.0, 0.5}, {0.25, 0.0}, {2, 4}, {168, 208}};
  constexpr std::int64_t kSteps = 50;
  const auto cut = measured_cut(config, ran, kSteps);
  REQUIRE(cut);
  CHECK(cut->layers == std::vector<std::size_t>{3, 3});
  CHECK(cut->slowest == Approx(0.5).epsilon(0.01));
  CHECK((cut->speeds[0] == 1.0 && cut->speeds[1] == Approx(1.0 / 3.0).epsilon(0.01)));
  FinishedRun run = testing::two_nodes("piped");
  run.summary.pipeline = ran;
  run.summary.final_version = Version(kSteps);
  CHECK_THAT(
      pipeline_report(run, nullptr, cut, TextStyle::kPlain),
      Catch::Contains(
          "stage speeds 1, 0.33: pipeline.balance: [3, 3] would take 0.50 of the slowest stage's time"));
  // Where none is better, nothing is known, or it has no room.
  const auto with = [&ran](auto member, auto value) {
    PipelineSummary other = ran;
    other.*member = value;
    return other;
  };
  using Seconds = std::vector<double>;
  using Numbers = std::vector<std::int64_t>;
  for (const Seconds& busy : {Seconds{1.0, 1.0}, Seconds{1.0, 0.0}, Seconds{1.0, 8.5}, Seconds{}}) {
    CHECK_FALSE(measured_cut(config, with(&PipelineSummary::busy_seconds, busy), kSteps));
  }
  for (const Numbers& layers :
       {Numbers{}, Numbers{6}, Numbers{2, 3}, Numbers{2, 5}, Numbers{0, 6}, Numbers{-1, 7}}) {
    CHECK_FALSE(measured_cut(config, with(&PipelineSummary::layers, layers), kSteps));
  }
  CHECK_FALSE(measured_cut(config, with(&PipelineSummary::parameters, Numbers{168, 209}), kSteps));
  const testing::TempFolder folder;
  REQUIRE(write_file_atomically(folder / "config.yaml", to_yaml(config)));
  testing::write_run(folder.path(), run);
  const auto advises = [&folder] {
    const testing::Outcome reported = testing::run_report({folder.path().string()});
    CHECK(reported.status == 0);
    return reported.out.find("pipeline.balance: [3, 3]") != std::string::npos;
  };
  CHECK(advises());
  CHECK_FALSE(measured_cut(config, ran, kSteps - 1));  // a busy machine may have disturbed so few
  // A resume has begun, with a cut of its own: what these times are of is the summary's.
  config.pipeline.balance.layers = {3, 3};
  REQUIRE(write_file_atomically(folder / "config.yaml", to_yaml(config)));
  CHECK(advises());
  config.pipeline.memory = 1024;
  CHECK_FALSE(measured_cut(config, ran, kSteps));
}

}  // namespace
}  // namespace paceline
