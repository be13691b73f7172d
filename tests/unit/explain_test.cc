// Why workers waited: worked out by hand.
#include <catch2/catch.hpp>

#include "tests/unit/explained_run.h"
#include "tools/explain_costliest.h"
#include "tools/explain_waits.h"

namespace paceline {
namespace {

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

// Two groups of two stages: stage 0 of the first waits 60 ms, for its like in the other group and then for its own
// stage 1.
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

}  // namespace
}  // namespace paceline
