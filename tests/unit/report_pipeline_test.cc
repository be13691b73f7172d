// What `paceline report` says of a pipeline: its stages' times, and a step as it was run.
#include "tools/report_pipeline.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>

#include "common/config/load.h"
#include "common/files/atomic_file.h"
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
  run.summary.pipeline = {2, 2, 0.25, {100, 50}, {1.5, 1.0}, {0.0, 0.5}, {0.25, 0.0}};
  const std::string text = pipeline_report(run, &trace, {}, TextStyle::kPlain);
  using Catch::Contains;
  CHECK_THAT(text, Contains("pipeline: 2 stages, 2 micro-batches") &&
                       Contains("bubble 25.0 %, (K - 1) / (M + K - 1) = 33.3 %"));
  CHECK_THAT(text, Contains("1.500") && Contains("0.500") && Contains("0.250"));
  CHECK_THAT(text, Contains("the step of clock 0, the median of 3: 0.036 s, bubble 50.0 %") &&
                       Contains("\nstage 0  F0------F1------") &&
                       Contains("\nstage 1  ........F0------F1------"));
  CHECK_THAT(pipeline_report(run, nullptr, {}, TextStyle::kPlain), !Contains("the step of"));
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
  const std::vector<double> busy = {1.0, 3.0};
  const auto cut = measured_cut(config, busy);
  REQUIRE(cut);
  CHECK(cut->layers == std::vector<std::size_t>{3, 3});
  CHECK(cut->slowest == Approx(0.5).epsilon(0.01));
  CHECK((cut->speeds[0] == 1.0 && cut->speeds[1] == Approx(1.0 / 3.0).epsilon(0.01)));
  FinishedRun run = testing::two_nodes("piped");
  run.summary.pipeline = {2, 2, 0.25, {100, 50}, busy, {0.0, 0.5}, {0.25, 0.0}};
  CHECK_THAT(
      pipeline_report(run, nullptr, cut, TextStyle::kPlain),
      Catch::Contains(
          "stage speeds 1, 0.33: pipeline.balance: [3, 3] would take 0.50 of the slowest stage's time"));
  // Where none is better, nothing is known, or it has no room.
  CHECK_FALSE(measured_cut(config, std::vector<double>{1.0, 1.0}));
  CHECK_FALSE(measured_cut(config, std::vector<double>{1.0, 0.0}));
  CHECK_FALSE(measured_cut(config, {}));
  const testing::TempFolder folder;
  REQUIRE(write_file_atomically(folder / "config.yaml", to_yaml(config)));
  testing::write_run(folder.path(), run);
  const auto advises = [&folder] {
    const testing::Outcome said = testing::run_report({folder.path().string()});
    CHECK(said.status == 0);
    return said.out.find("pipeline.balance: [3, 3]") != std::string::npos;
  };
  CHECK(advises());
  // A resume has begun, with a cut of its own: these times are not of it.
  std::filesystem::last_write_time(
      folder / "config.yaml",
      std::filesystem::last_write_time(folder / "summary.json") + std::chrono::milliseconds(1));
  CHECK_FALSE(advises());
  config.pipeline.memory = 1024;
  CHECK_FALSE(measured_cut(config, busy));
}

}  // namespace
}  // namespace paceline
