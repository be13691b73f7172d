// Why workers waited, as `paceline explain` says it.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/unit/explained_run.h"

namespace paceline {
namespace {

TEST_CASE("explain_tells_of_one_iteration_why_how_long_for_whom_threshold_and_lpr") {
  ExplainedRun run;
  REQUIRE(run({.worker = "0.0", .clock = 2}) == 0);
  CHECK_THAT(run.out(), Contains("worker 0.0, clock 2: waited 110.000 ms from 0.100 s on"));
  CHECK_THAT(run.out(), Contains("60.000 ms  2 ahead of worker 1.0 (clock 0), threshold 1, LPR 1.25 %"));
  CHECK_THAT(run.out(), Contains("let go at 0.185 s: worker 1.0 moved on"));
  CHECK_THAT(run.out(), Contains("meanwhile worker 1.0: COMPUTE_GRADS 55.000 ms, PS_APPLY_GRADS 5.000 ms"));
  CHECK_THAT(run.out(), Contains("then COMPUTE_GRADS 90.000 ms"));
}

TEST_CASE("explain_lists_the_costliest_waits_and_what_each_cause_cost") {
  ExplainedRun run;
  REQUIRE(run({}) == 0);
  CHECK_THAT(run.out(), Contains("2 waits of 2 workers, 0.120 s in all"));
  CHECK_THAT(squeezed(run.out()), Contains("\nbarrier 0.060 12.2 % 1.0 (0.060 s) 0.0 (0.060 s)\n"));
  CHECK_THAT(squeezed(run.out()),
             Contains("\nnetwork 0.045 9.2 % the way to the servers and back 0.0 (0.035 s), "
                      "1.0 (0.010 s)\n"));
  CHECK_THAT(squeezed(run.out()), Contains("\n0.100 0.060 0.0 1.0 0 COMPUTE_GRADS 55.000 ms\n"));
  CHECK_THAT(squeezed(run.out()), Contains("\n0.100 0.035 0.0 2 31.8 % the way to the servers and back\n"));
  CHECK_THAT(run.out(), !Contains("parameters: the"));  // nobody waited for them
}

// Three workers wait for 1.0, whose clock 177 lets them go at once; later one waits for it alone.
std::vector<Wait> waits_for_one() {
  std::vector<Wait> waits;
  for (const std::uint32_t thread : {0U, 1U, 2U, 0U}) {
    const bool later = waits.size() == 3;
    Wait wait;
    wait.worker = WorkerId(0, thread);
    wait.clock = Clock(later ? 179 : 178);
    wait.begin = at(later ? 9'000 : 1'000 - thread);
    wait.length = later ? 4s : 3s - thread * 1s;
    wait.causes[static_cast<std::size_t>(WaitCause::kBarrier)] = wait.length;
    wait.whom = kSlow;
    wait.hold = Decision{.kind = DecisionKind::kHeld, .min_clock = Clock(later ? 178 : 177)};
    wait.grant = Decision{.kind = DecisionKind::kGranted,
                          .min_clock = Clock(later ? 179 : 178),
                          .release = trace::Release::kWorker,
                          .by = kSlow};
    waits.push_back(wait);
  }
  return waits;
}

TEST_CASE("waits_that_one_release_ended_are_one_entry_and_compete_by_their_sum") {
  const std::vector<Wait> waits = waits_for_one();
  const std::vector<CostlyWait> barriers = costliest_of(waits, WaitCause::kBarrier, 10);
  REQUIRE(barriers.size() == 2);
  CHECK(barriers[0].time == 6s);
  CHECK(barriers[0].begin == at(998));
  CHECK(barriers[0].whom_at == Clock(177));
  REQUIRE(barriers[0].waits.size() == 3);
  CHECK(barriers[0].waits.front()->worker == WorkerId(0, 0));
  CHECK(barriers[1].waits.size() == 1);
  CHECK(costliest_of(waits, WaitCause::kBarrier, 1).size() == 1);
  CHECK(costliest_of(waits, WaitCause::kNetwork, 10).empty());
}

TEST_CASE("what_another_release_ended_is_another_entry") {
  std::vector<Wait> waits = waits_for_one();
  waits[1].grant->by = WorkerId(1, 1);
  waits[2].grant->release = trace::Release::kThreshold;
  CHECK(costliest_of(waits, WaitCause::kBarrier, 10).size() == 4);
  for (Wait& wait : waits) wait.grant.reset();  // left out of the trace
  CHECK(costliest_of(waits, WaitCause::kBarrier, 10).size() == 4);
}

TEST_CASE("one_cause_is_told_alone_where_it_is_asked_for") {
  ExplainedRun run;
  REQUIRE(run({.cause = "network"}) == 0);
  CHECK_THAT(run.out(), Contains("network: the 2 costliest") && !Contains("barrier"));
  REQUIRE(run({.cause = "network", .format = "json"}) == 0);
  const auto causes = nlohmann::json::parse(run.out()).at("causes");
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].at("costliest").size() == 2);
  CHECK(causes[0].at("costliest")[0].at("seconds").get<double>() == Approx(0.035));
  CHECK(run({.cause = "weather"}) == 2);
  CHECK_THAT(run.refusal(), Contains("--cause: got \"weather\", expected barrier, network, server"));
  CHECK(run({.worker = "0.0", .clock = 2, .cause = "network"}) == 2);
  CHECK_THAT(run.refusal(), Contains("--cause goes without --worker"));
}

TEST_CASE("workers_whose_parts_are_missing_are_named_and_how_to_have_them") {
  trace::Trace without = held_run();
  without.workers.pop_back();  // 1.0, of another machine
  without.decisions.insert(without.decisions.begin(),
                           Decision{.at = at(0), .kind = DecisionKind::kJoined, .worker = kSlow});
  ExplainedRun run(without);
  REQUIRE(run({}) == 0);
  CHECK_THAT(run.out(), Contains("Nothing is known of the waits of 1.0:"));
  CHECK_THAT(run.out(), Contains("call paceline trace "));
  REQUIRE(run({.format = "json"}) == 0);
  CHECK(nlohmann::json::parse(run.out()).at("without_phases") == nlohmann::json::array({"1.0"}));
  CHECK(run({.worker = "1.0", .clock = 1}) == 2);
  CHECK_THAT(run.refusal(), Contains("bring its node's trace-node-1.json there and call paceline trace "));
}

TEST_CASE("of_a_worker_whose_node_was_lost_a_part_is_asked_for_unless_it_was_killed") {
  trace::Trace without = held_run();
  const WorkerId elsewhere(2, 0);
  for (const WorkerId worker : {elsewhere, kSlow}) {
    without.decisions.insert(without.decisions.begin(),
                             Decision{.at = at(0), .kind = DecisionKind::kJoined, .worker = worker});
  }
  without.workers.pop_back();
  without.decisions.push_back({.at = at(200), .kind = DecisionKind::kLost, .node = kSlow.node});
  ExplainedRun run(without);
  REQUIRE(run({}) == 0);
  CHECK_THAT(
      run.out(),
      Contains("Nothing is known of the waits of 1.0, whose nodes were lost. Bring their nodes' "
               "trace-node-*.json into ") &&
          Contains(
              ", unless they were killed.\nNothing is known of the waits of 2.0: the trace has decisions"));
  CHECK(run({.worker = "1.0", .clock = 1}) == 2);
  CHECK_THAT(
      run.refusal(),
      Contains("no phases; node 1 was lost; unless it was killed, bring its node's trace-node-1.json there"));
}

TEST_CASE("explain_speaks_json_to_other_tools") {
  ExplainedRun run;
  REQUIRE(run({.format = "json"}) == 0);
  const auto all = nlohmann::json::parse(run.out());
  CHECK(all.at("waits") == 2);
  CHECK(all.at("costliest").at(0).at("for") == "1.0");
  CHECK(all.at("causes").at(0).at("seconds").get<double>() == Approx(0.06));
  REQUIRE(run({.worker = "0.0", .clock = 2, .format = "json"}) == 0);
  const auto one = nlohmann::json::parse(run.out());
  CHECK(one.at("waited_seconds").get<double>() == Approx(0.11));
  CHECK(one.at("threshold") == 1);
  CHECK(one.at("lpr") == 1.25);
  CHECK(one.at("granted").at("released_by") == "worker");
}

TEST_CASE("what_explain_cannot_tell_is_refused_in_one_line") {
  ExplainedRun run;
  SECTION("half of a question") {
    CHECK(run({.worker = "0.0"}) == 2);
    CHECK_THAT(run.refusal(), Contains("--worker and --clock: expected both"));
  }
  SECTION("a worker that the trace does not have") {
    CHECK(run({.worker = "7.1", .clock = 2}) == 2);
    CHECK_THAT(run.refusal(), Contains("--worker: got 7.1, expected one that the trace has: 0.0, 1.0"));
  }
  SECTION("an iteration that it does not have") {
    CHECK(run({.worker = "0.0", .clock = 118}) == 2);
    CHECK_THAT(run.refusal(),
               Contains("--clock: got 118, expected one at which worker 0.0 waited: from 2 to 2"));
  }
  SECTION("a format that there is not") {
    CHECK(run({.format = "xml"}) == 2);
    CHECK_THAT(run.refusal(), Contains("--format: got \"xml\", expected table or json"));
  }
  SECTION("a run that was not traced") {
    std::filesystem::remove(run.folder() / "trace.json");
    CHECK(run({}) == 2);
    CHECK_THAT(run.refusal(), Contains("expected those of a run with run.trace: true"));
  }
  SECTION("a run that was to be traced, and was killed") {
    std::filesystem::remove(run.folder() / "trace.json");
    std::ofstream(run.folder() / "config.yaml") << "run: {trace: true}\n";
    CHECK(run({}) == 2);
    CHECK_THAT(run.refusal(),
               Contains("run.trace is true in its config.yaml, but the run has ended before") &&
                   !Contains("expected"));
  }
  SECTION("a trace that was cut off, beside its parts or not") {
    const std::filesystem::path file = run.folder() / "trace.json";
    std::filesystem::copy_file(file, run.folder() / "trace-node-0.json");
    std::filesystem::resize_file(file, std::filesystem::file_size(file) - 3);
    CHECK(run({}) == 2);
    CHECK_THAT(run.refusal(), Contains("cut off") && Contains("; its parts are there: paceline trace "));
    std::filesystem::remove(run.folder() / "trace-node-0.json");
    CHECK(run({}) == 2);
    CHECK_THAT(run.refusal(), Contains("cut off") && !Contains("parts"));
  }
}

}  // namespace
}  // namespace paceline
