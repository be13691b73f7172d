// What `paceline report` says of a pipeline: its stages' times, and a step as it was run.
#include "tools/report_pipeline.h"

#include <catch2/catch.hpp>

#include "tests/unit/report_fixture.h"

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
  CHECK(pipeline_report(run, &trace, TextStyle::kPlain).empty());
  run.summary.pipeline = {2, 2, 0.25, {100, 50}, {1.5, 1.0}, {0.0, 0.5}, {0.25, 0.0}};
  const std::string text = pipeline_report(run, &trace, TextStyle::kPlain);
  using Catch::Contains;
  CHECK_THAT(text, Contains("pipeline: 2 stages, 2 micro-batches") &&
                       Contains("bubble 25.0 %, (K - 1) / (M + K - 1) = 33.3 %"));
  CHECK_THAT(text, Contains("1.500") && Contains("0.500") && Contains("0.250"));
  CHECK_THAT(text, Contains("the step of clock 0, the median of 3: 0.036 s, bubble 50.0 %") &&
                       Contains("\nstage 0  F0------F1------") &&
                       Contains("\nstage 1  ........F0------F1------"));
  CHECK_THAT(pipeline_report(run, nullptr, TextStyle::kPlain), !Contains("the step of"));
}

}  // namespace
}  // namespace paceline
