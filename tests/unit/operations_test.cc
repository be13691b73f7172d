// Finding the min clock and deciding a step costs O(1) amortised, however many workers there are: counted in
// elementary operations on the clock table and the held grants (common/sync/test_hooks.h), not timed.
#include <catch2/catch.hpp>

#include "common/random.h"
#include "common/sync/engine.h"
#include "common/sync/test_hooks.h"

namespace paceline::sync {
namespace {

// Operations per step of a run of `workers` in which whoever may go on is drawn at random.
double operations_per_step(std::uint32_t workers, PolicyKind kind) {
  EngineConfig config;
  config.cluster = {workers, 1};
  config.policy.kind = kind;
  config.policy.threshold = 3;
  config.apply = kind == PolicyKind::kAsp ? ApplyMode::kEager : ApplyMode::kVersioned;
  config.combine = CombineMode::kEach;
  config.total_iterations = std::int64_t{workers} * 1000;
  Engine engine(config);
  std::vector<Action> actions;
  std::vector<Grant> runnable;
  const auto take = [&](const Event& event) {
    actions.clear();
    engine.step(event, Ticks(0), actions);
    for (const Action& action : actions) {
      if (const auto* grant = std::get_if<Grant>(&action)) runnable.push_back(*grant);
    }
  };
  for (std::uint32_t n = 0; n < workers; ++n) take(Joined{WorkerId(n, 0)});

  CounterRandom random(1, Stream::kTest);
  const std::int64_t steps = 20 * std::int64_t{workers};
  operations = 0;
  for (std::int64_t i = 0; i < steps; ++i) {
    std::swap(runnable[random.next_below(runnable.size())], runnable.back());
    const Grant grant = runnable.back();
    runnable.pop_back();
    take(GradientArrived{ShardId(0), grant.worker, grant.clock, 1, ""});
    StepReported report;
    report.worker = grant.worker;
    report.clock = grant.clock;
    report.metric.samples = 1;
    report.computed_version = grant.version;
    take(report);
  }
  return static_cast<double>(operations) / static_cast<double>(steps);
}

TEST_CASE("a_step_costs_the_same_with_ten_and_with_ten_thousand_workers") {
  for (const PolicyKind kind : {PolicyKind::kBsp, PolicyKind::kSsp, PolicyKind::kAsp}) {
    const double few = operations_per_step(10, kind);
    const double many = operations_per_step(10'000, kind);
    INFO("policy " << static_cast<int>(kind) << ": " << few << " and " << many << " operations per step");
    CHECK(few > 0.9);
    CHECK(many < 6.0);
    CHECK(many < few * 1.5 + 0.5);
  }
}

}  // namespace
}  // namespace paceline::sync
