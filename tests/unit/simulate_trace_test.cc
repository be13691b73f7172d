// What a simulated run records, and computations taken from what another recorded.
#include <catch2/catch.hpp>

#include "common/trace/trace_file.h"
#include "simulate/replayed_times.h"
#include "tests/unit/simulate_fixture.h"
#include "tests/unit/temp_folder.h"

namespace paceline::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

const std::vector<std::string> kTraced = {"run.trace=true",
                                          "sync.policy=ssp",
                                          "sync.threshold=2",
                                          "simulate.compute.slowdown=[1, 1.7]",
                                          "simulate.network.latency=1ms",
                                          "simulate.costs.message=10us"};

TEST_CASE("a_simulated_run_records_what_its_phases_add_up_to_and_every_grant") {
  const simulate::Outcome outcome = simulated(kTraced);
  REQUIRE(outcome.recorded.has_value());
  REQUIRE(outcome.recorded->workers.size() == outcome.phases.size());
  std::int64_t computed = 0;
  for (const WorkerPhases& worker : outcome.phases) {
    PhaseTotals sums;
    for (const PhaseSpan& span : outcome.recorded->find(worker.worker)->spans) {
      sums[span.phase].total_ns += span.length.count();
      computed += span.phase == Phase::kComputeGrads ? 1 : 0;
    }
    for (std::size_t p = 0; p < kPhaseCount; ++p) {
      INFO("worker " << to_string(worker.worker) << ", " << kPhaseNames[p]);
      CHECK(sums.phases[p].total_ns == worker.totals.phases[p].total_ns);
    }
  }
  CHECK(computed == 20);
  std::int64_t grants = 0, holds = 0;
  for (const trace::Decision& d : outcome.recorded->decisions) {
    grants += d.kind == trace::DecisionKind::kGranted ? 1 : 0;
    holds += d.kind == trace::DecisionKind::kHeld ? 1 : 0;
  }
  CHECK(grants == 20);
  CHECK(holds > 0);
  REQUIRE(outcome.summary.traced.has_value());
  CHECK(outcome.summary.traced->events == outcome.recorded->events());
}

TEST_CASE("a_run_that_is_not_traced_records_nothing") {
  const simulate::Outcome outcome = simulated({});
  CHECK_FALSE(outcome.recorded.has_value());
  CHECK_FALSE(outcome.summary.traced.has_value());
}

TEST_CASE("a_node_that_crashes_and_comes_back_is_in_the_trace_without_an_overlap") {
  std::vector<std::string> overrides = kTraced;
  overrides.insert(overrides.end(),
                   {"cluster.lease=300ms", "cluster.heartbeat=100ms", "train.total_iterations=60",
                    "simulate.events=[{at: 450ms, node: 1, kind: crash}, {at: 1s, node: 1, kind: join}]"});
  const simulate::Outcome outcome = simulated(overrides);
  REQUIRE(outcome.recorded.has_value());
  const testing::TempFolder folder;
  REQUIRE(write_trace(folder / "trace.json", *outcome.recorded).is_ok());
  const auto read = trace::read_trace_file(folder / "trace.json");
  INFO(read.status().message());
  CHECK(read.is_ok());
}

TEST_CASE("replayed_computations_are_a_worker_s_own_one_after_another_and_then_again") {
  trace::Trace recorded;
  recorded.workers.push_back({WorkerId(0, 0),
                              {{Ticks(0), 5ns, Clock(3), Phase::kComputeGrads},
                               {Ticks(5), 100ns, Clock(3), Phase::kBarrier},
                               {Ticks(105), 7ns, Clock(4), Phase::kComputeGrads}},
                              0});
  recorded.workers.push_back({WorkerId(1, 0), {{Ticks(0), 9ns, Clock(3), Phase::kComputeGrads}}, 0});
  const auto replayed = simulate::replayed_times(recorded, {2, 1});
  REQUIRE(replayed.is_ok());
  const auto length = [&](std::uint32_t rank, std::int64_t clock) {
    return replayed->times->length(Rank(rank), Clock(clock));
  };
  CHECK(length(0, 0) == nanoseconds(5));
  CHECK(length(0, 1) == nanoseconds(7));
  CHECK(length(0, 2) == nanoseconds(5));
  CHECK(length(1, 8) == nanoseconds(9));

  const auto refused = simulate::replayed_times(recorded, {3, 1});
  REQUIRE_FALSE(refused.is_ok());
  CHECK(refused.status().message() == "worker 2.0 has no COMPUTE_GRADS in trace.json");
}

}  // namespace
}  // namespace paceline::test
