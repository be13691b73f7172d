// Why workers waited: worked out by hand, and as `paceline explain` says it.
#include "tools/explain.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/trace/trace_file.h"
#include "tests/unit/temp_folder.h"
#include "tools/explain_costliest.h"
#include "tools/explain_waits.h"

namespace paceline {
namespace {

using namespace std::chrono_literals;
using Catch::Contains;
using std::chrono::nanoseconds;
using trace::Decision;
using trace::DecisionKind;

const WorkerId kFast(0, 0), kSlow(1, 0);

Ticks at(std::int64_t ms) { return Ticks(ms * 1'000'000); }
PhaseSpan span(std::int64_t from, std::int64_t to, std::int64_t clock, Phase phase) {
  return {at(from), at(to) - at(from), Clock(clock), phase};
}

// 0.0 computes clock 1 until 100 ms; its exchange takes 100 ms, as in explain_waits.h: reported at 120, held
// from 125 to 185 for 1.0, which computes until 180. Then it waits 10 ms for its mini-batch.
trace::Trace held_run() {
  trace::Trace t;
  trace::Process authority, nodes[2];
  authority.server = kAuthority;
  nodes[1].node = NodeId(1);
  t.processes = {authority, nodes[0], nodes[1]};
  t.first_grant = at(0);
  t.workers = {{kFast,
                {span(0, 100, 1, Phase::kComputeGrads), span(100, 140, 1, Phase::kPsApplyGrads),
                 span(140, 200, 2, Phase::kBarrier), span(200, 210, 2, Phase::kBatch),
                 span(210, 300, 2, Phase::kComputeGrads)},
                0},
               {kSlow, {span(0, 180, 0, Phase::kComputeGrads), span(180, 190, 0, Phase::kPsApplyGrads)}, 0}};
  const auto decision = [&](std::int64_t ms, DecisionKind kind, WorkerId worker,
                            std::int64_t clock) -> Decision& {
    t.decisions.push_back({.at = at(ms), .kind = kind, .worker = worker, .clock = Clock(clock)});
    return t.decisions.back();
  };
  decision(120, DecisionKind::kReported, kFast, 1);
  Decision& hold = decision(125, DecisionKind::kHeld, kFast, 2);
  hold.min_clock = Clock(0);
  hold.threshold = Threshold(1);
  hold.lpr = 1.25;
  hold.by = kSlow;
  decision(184, DecisionKind::kReported, kSlow, 0);
  Decision& grant = decision(185, DecisionKind::kGranted, kFast, 2);
  grant.threshold = Threshold(1);
  grant.lpr = 1.25;
  grant.held = 60ms;
  grant.release = trace::Release::kWorker;
  grant.by = kSlow;
  return t;
}

TEST_CASE("a_wait_is_divided_among_barrier_server_network_and_data") {
  const std::vector<Wait> waits = waits_of(held_run());
  REQUIRE(waits.size() == 2);
  const Wait& wait = waits[0];
  CHECK(wait.worker == kFast);
  CHECK(wait.clock == Clock(2));
  CHECK(wait.after == Clock(1));
  CHECK(wait.begin == at(100));
  CHECK(wait.length == 110ms);
  CHECK(wait[WaitCause::kBarrier] == 60ms);
  CHECK(wait[WaitCause::kServer] == 5ms);
  CHECK(wait[WaitCause::kNetwork] == 35ms);
  CHECK(wait[WaitCause::kData] == 10ms);
  CHECK(wait[WaitCause::kParameters] == 0ms);
  CHECK(wait.whom == kSlow);
  CHECK(wait.of_whom[static_cast<std::size_t>(Phase::kComputeGrads)] == 55ms);
  CHECK(wait.of_whom[static_cast<std::size_t>(Phase::kPsApplyGrads)] == 5ms);
  CHECK(wait.then[static_cast<std::size_t>(Phase::kComputeGrads)] == 90ms);
}

// Both report once the sum is there; the fast one had its gradient 80 ms before the slow one. Its report came first by
// chance, so that it was held for the other's.
TEST_CASE("in_an_all_reduce_the_exchange_is_a_barrier_until_the_last_gradient_is_there") {
  trace::Trace t;
  t.workers = {{kFast,
                {span(0, 100, 0, Phase::kComputeGrads), span(100, 195, 0, Phase::kPsApplyGrads),
                 span(195, 200, 1, Phase::kBarrier), span(200, 300, 1, Phase::kComputeGrads)},
                0},
               {kSlow,
                {span(0, 180, 0, Phase::kComputeGrads), span(180, 200, 0, Phase::kPsApplyGrads),
                 span(200, 300, 1, Phase::kComputeGrads)},
                0}};
  t.decisions.push_back({.at = at(196), .kind = DecisionKind::kReported, .worker = kFast, .clock = Clock(0)});
  t.decisions.push_back({.at = at(196), .kind = DecisionKind::kHeld, .worker = kFast, .clock = Clock(1)});
  t.decisions.push_back({.at = at(199), .kind = DecisionKind::kGranted, .worker = kFast, .clock = Clock(1)});
  const std::vector<Wait> waits = waits_of(t, ExchangedBy::kAllreduce);
  REQUIRE(waits.size() == 2);
  CHECK(waits[0][WaitCause::kBarrier] == 80ms);
  CHECK((waits[0][WaitCause::kSum] == 16ms && waits[0][WaitCause::kNetwork] == 4ms));
  CHECK(waits[0].whom == kSlow);
  CHECK(waits[0].of_whom[static_cast<std::size_t>(Phase::kComputeGrads)] == 80ms);
  REQUIRE((waits[0].hold && waits[0].grant));
  CHECK((waits[0].hold->by == kSlow && waits[0].grant->by == kSlow && waits[0].grant->at == at(180)));
  CHECK(waits[1][WaitCause::kBarrier] == 0ms);
  CHECK(waits[1][WaitCause::kNetwork] == 20ms);
}

TEST_CASE("what_a_stage_waits_in_its_step_is_for_the_stages_beside_it") {
  trace::Trace trace;
  for (std::uint32_t node = 0; node < 3; ++node) {
    const WorkerId worker(NodeId(node), 0);
    trace.workers.push_back({worker,
                             {span(0, 5, 0, Phase::kBatch), span(5, 25, 0, Phase::kBarrier),
                              span(25, 65, 0, Phase::kComputeGrads), span(65, 75, 0, Phase::kPsApplyGrads),
                              span(75, 105, 1, Phase::kBarrier), span(105, 110, 1, Phase::kPsParam),
                              span(110, 130, 1, Phase::kBarrier), span(130, 170, 1, Phase::kComputeGrads)},
                             0});
  }
  const std::vector<Wait> waits = waits_of(trace, ExchangedBy::kServers, 3);
  REQUIRE(waits.size() == 6);
  for (const Wait& wait : waits) CHECK(wait[WaitCause::kStage] == 20ms);
  CHECK(waits[1][WaitCause::kBarrier] == 30ms);  // the authority's
  CHECK(waits[0].beside == WorkerId(NodeId(1), 0));
  CHECK_FALSE(waits[2].beside);  // of stage 1, which has two neighbours
  CHECK(waits[4].beside == WorkerId(NodeId(1), 0));
  const CauseCost stage = costs_of(waits).back();
  CHECK(stage.cause == WaitCause::kStage);
  CHECK(stage.total == 120ms);
  CHECK(stage.of_unknown == 40ms);
  REQUIRE(stage.workers.size() == 1);
  CHECK(stage.workers[0] == std::pair(WorkerId(NodeId(1), 0), std::chrono::nanoseconds(80ms)));
  // Without stages every barrier is the authority's.
  CHECK(waits_of(trace)[0][WaitCause::kBarrier] == 20ms);
  // In a norm group (train.batch_norm_group) those of a step are for its members.
  const std::vector<Wait> norms = waits_of(trace, ExchangedBy::kServers, 1, 3);
  for (const Wait& wait : norms) CHECK((wait[WaitCause::kStage] == 20ms && !wait.beside));
  CHECK(norms[1][WaitCause::kBarrier] == 30ms);
  CHECK(waits_of(trace, ExchangedBy::kAllreduce, 1, 3)[1][WaitCause::kStage] == 20ms);
  // Where the passes are there, the one in the middle waits for each of its neighbours.
  using Pass = schedule::PipelineRow::Pass;
  trace.stages.push_back({NodeId(1),
                          {{at(17), 10ms, Clock(0), {Pass::kForward, 0}},
                           {at(35), 30ms, Clock(0), {Pass::kBackward, 0}},
                           {at(115), 15ms, Clock(1), {Pass::kForward, 0}},
                           {at(145), 25ms, Clock(1), {Pass::kBackward, 0}}},
                          0});
  const CauseCost known = costs_of(waits_of(trace, ExchangedBy::kServers, 3)).back();
  CHECK(known.of_unknown == 0ms);
  REQUIRE(known.workers.size() == 3);
  CHECK(known.workers[1] == std::pair(WorkerId(NodeId(2), 0), std::chrono::nanoseconds(23ms)));
  CHECK(known.workers[2] == std::pair(WorkerId(NodeId(0), 0), std::chrono::nanoseconds(17ms)));
}

// Of two stages that sum by themselves, the last of which ends first.
TEST_CASE("in_an_all_reduce_a_stage_that_ends_early_is_held_for_the_one_that_ends_late") {
  const WorkerId first(NodeId(0), 0), last(NodeId(1), 0);
  trace::Trace trace;
  trace.workers = {{first,
                    {span(0, 100, 0, Phase::kComputeGrads), span(100, 110, 0, Phase::kPsApplyGrads),
                     span(110, 150, 1, Phase::kComputeGrads)},
                    0},
                   {last,
                    {span(0, 40, 0, Phase::kComputeGrads), span(40, 50, 0, Phase::kPsApplyGrads),
                     span(50, 110, 1, Phase::kBarrier), span(110, 111, 1, Phase::kPCacheParam),
                     span(111, 150, 1, Phase::kComputeGrads)},
                    0}};
  trace.decisions.push_back(
      {.at = at(50), .kind = DecisionKind::kHeld, .worker = last, .clock = Clock(1), .by = first});
  const std::vector<Wait> waits = waits_of(trace, ExchangedBy::kAllreduce, 2);
  REQUIRE(waits.size() == 2);
  CHECK((waits[0][WaitCause::kBarrier] == 0ms && waits[0][WaitCause::kNetwork] == 10ms));
  CHECK((waits[1][WaitCause::kBarrier] == 60ms && waits[1][WaitCause::kNetwork] == 10ms));
  CHECK(waits[1].whom == first);
}

// Two groups of two stages: stage 0 of the first waits 60 ms, for its like in the other group and then for its own stage 1.
TEST_CASE("in_an_all_reduce_of_stages_the_longer_of_both_waits_says_for_whom") {
  const WorkerId self(NodeId(0), 0), beside(NodeId(1), 0), like(NodeId(2), 0);
  const auto waited = [&](std::int64_t computed) {  // by its like, at that instant; the sum takes 10 ms
    trace::Trace trace;
    const std::int64_t summed = computed + 10;
    trace.workers = {{self,
                      {span(0, 40, 0, Phase::kComputeGrads), span(40, summed, 0, Phase::kPsApplyGrads),
                       span(summed, 120, 1, Phase::kBarrier), span(120, 121, 1, Phase::kPCacheParam),
                       span(121, 160, 1, Phase::kComputeGrads)},
                      0},
                     {beside, {span(0, 120, 0, Phase::kComputeGrads)}, 0},
                     {like, {span(0, computed, 0, Phase::kComputeGrads)}, 0}};
    trace.decisions.push_back(
        {.at = at(summed), .kind = DecisionKind::kHeld, .worker = self, .clock = Clock(1), .by = beside});
    return waits_of(trace, ExchangedBy::kAllreduce, 2).at(0);
  };
  const Wait for_like = waited(90), for_beside = waited(50);
  CHECK(for_like.whom == like);
  CHECK(for_beside.whom == beside);
  for (const Wait& wait : {for_like, for_beside}) {
    CHECK((wait[WaitCause::kBarrier] == 70ms && wait[WaitCause::kNetwork] == 10ms));
  }
}

// Of three stages and a micro-batch, of which the last takes 40 of 80 ms.
TEST_CASE("what_stages_wait_is_a_slow_ones_doing_however_far_it_is") {
  using Pass = schedule::PipelineRow::Pass;
  const std::int64_t passes[3][4] = {{0, 10, 70, 80}, {10, 20, 60, 70}, {20, 30, 30, 60}};
  trace::Trace trace;
  for (std::uint32_t node = 0; node < 3; ++node) {
    const auto& [forward, turned, back, done] = passes[node];
    trace.stages.push_back({NodeId(node),
                            {{at(forward), (turned - forward) * 1ms, Clock(0), {Pass::kForward, 0}},
                             {at(back), (done - back) * 1ms, Clock(0), {Pass::kBackward, 0}}},
                            0});
  }
  const StageWaits waits(trace, 3);
  const auto of = [&](std::uint32_t node, std::chrono::milliseconds length) {
    return waits.of(WorkerId(NodeId(node), 0), Clock(0), at(0), length);
  };
  const auto worker = [](std::uint32_t node) { return WorkerId(NodeId(node), 0); };
  CHECK(of(0, 60ms) == StageWaits::Times{{worker(1), 20ms}, {worker(2), 40ms}});
  CHECK(of(1, 50ms) == StageWaits::Times{{worker(0), 10ms}, {worker(2), 40ms}});
  CHECK(of(2, 20ms) == StageWaits::Times{{worker(0), 10ms}, {worker(1), 10ms}});
  CHECK(of(0, 30ms) == StageWaits::Times{{worker(1), 10ms}, {worker(2), 20ms}});  // as far as it was measured
  CHECK(waits.of(worker(0), Clock(1), at(80), 5ms).empty());
  // One that itself waited all along is not named.
  trace.stages[0].spans[1] = {at(60), 10ms, Clock(0), {Pass::kBackward, 0}};
  trace.stages[1].spans = {{at(0), 10ms, Clock(0), {Pass::kForward, 0}},
                           {at(60), 10ms, Clock(0), {Pass::kBackward, 0}}};
  CHECK(StageWaits(trace, 3).of(worker(0), Clock(0), at(0), 50ms) == StageWaits::Times{{worker(2), 50ms}});
}

TEST_CASE("the_exchange_behind_the_last_iteration_waits_for_one_that_does_not_come") {
  trace::Trace run = held_run();
  run.workers[0].spans.push_back(span(300, 340, 2, Phase::kPsApplyGrads));  // and nothing follows
  const std::vector<Wait> waits = waits_of(run);
  REQUIRE(waits.size() == 3);
  CHECK(waits[0].clock == Clock(2));
  CHECK(waits[0].grant.has_value());
  CHECK(waits[1].worker == kFast);
  CHECK(waits[1].after == Clock(2));
  CHECK(waits[1].clock == Clock(3));
  CHECK_FALSE(waits[1].hold.has_value());
  CHECK_FALSE(waits[1].grant.has_value());
  CHECK(waits[1][WaitCause::kNetwork] == 40ms);
}

TEST_CASE("waits_of_two_iterations_are_two_also_without_an_exchange_between_them") {
  trace::Trace run = held_run();
  run.decisions.clear();
  run.workers = {{kFast,
                  {span(0, 10, 1, Phase::kBatch), span(10, 50, 1, Phase::kComputeGrads),
                   span(60, 65, 7, Phase::kPsParam), span(65, 90, 7, Phase::kComputeGrads)},
                  0}};
  const std::vector<Wait> waits = waits_of(run);
  REQUIRE(waits.size() == 2);
  CHECK(waits[0].clock == Clock(1));
  CHECK(waits[0].length == 10ms);
  CHECK(waits[1].clock == Clock(7));
  CHECK(waits[1][WaitCause::kParameters] == 5ms);
}

TEST_CASE("causes_add_up_to_the_waits_and_a_barrier_is_charged_to_whom_it_was_for") {
  const std::vector<Wait> waits = waits_of(held_run());
  nanoseconds waited{0}, caused{0};
  for (const Wait& wait : waits) waited += wait.length;
  for (const CauseCost& cost : costs_of(waits)) {
    caused += cost.total;
    if (cost.cause != WaitCause::kBarrier) continue;
    REQUIRE(cost.workers.size() == 1);
    CHECK(cost.workers[0].first == kSlow);
    CHECK(cost.workers[0].second == 60ms);
  }
  CHECK(waited == 120ms);
  CHECK(caused == waited);
}

TEST_CASE("without_the_decisions_nobody_is_blamed_for_a_barrier") {
  trace::Trace killed = held_run();  // its server left no part
  killed.decisions.clear();
  const CauseCost barrier = costs_of(waits_of(killed)).front();
  CHECK(barrier.total == 60ms);
  CHECK(barrier.of_unknown == 60ms);
  CHECK(barrier.workers.empty());
  REQUIRE(barrier.waiting.size() == 1);
  CHECK(barrier.waiting[0].first == kFast);
}

TEST_CASE("the_costliest_come_first") {
  const std::vector<Wait> first = costliest(waits_of(held_run()), 1);
  REQUIRE(first.size() == 1);
  CHECK(first[0].worker == kFast);
  CHECK(costliest(waits_of(held_run()), 10).size() == 2);
}

// Blanks of a line as one, none at its end.
std::string squeezed(const std::string& text) {
  std::string all;
  std::istringstream lines(text);
  for (std::string line, word; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string one;
    while (words >> word) one += (one.empty() ? "" : " ") + word;
    all += one + "\n";
  }
  return all;
}

class ExplainedRun {
 public:
  explicit ExplainedRun(const trace::Trace& run = held_run()) {
    REQUIRE(write_trace(folder_ / "trace.json", run).is_ok());
  }
  int operator()(ExplainOptions options) {
    out_.str("");
    err_.str("");
    options.run = folder_.path().string();
    return explain(options, out_, err_);
  }
  std::string out() const { return out_.str(); }
  std::string refusal() const {
    CHECK(out_.str().empty());
    return err_.str();
  }
  const testing::TempFolder& folder() const { return folder_; }

 private:
  testing::TempFolder folder_;
  std::ostringstream out_, err_;
};

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

TEST_CASE("of_a_worker_whose_node_was_lost_no_part_is_asked_for") {
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
  CHECK_THAT(run.out(),
             Contains("Nothing is known of the waits of 1.0, whose nodes were lost: a process that "
                      "is killed leaves no part of a trace.\n"
                      "Nothing is known of the waits of 2.0: the trace has decisions"));
  CHECK(run({.worker = "1.0", .clock = 1}) == 2);
  CHECK_THAT(run.refusal(), Contains("no phases; node 1 was lost, and") && !Contains("bring"));
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
