// For whom nodes of an all-reduce waited in their sums, and what a new formation cost them: worked out by hand.
#include "tools/sum_waits.h"

#include <catch2/catch.hpp>

#include "tools/explain_text.h"
#include "tools/explain_waits.h"

namespace paceline {
namespace {

using namespace std::chrono_literals;
using Catch::Contains;
using trace::DecisionKind;

const NodeId kNodes[] = {NodeId(0), NodeId(1), NodeId(2)};
const WorkerId kWorkers[] = {WorkerId(0, 0), WorkerId(1, 0), WorkerId(2, 0)};

Ticks at_ms(std::int64_t ms) { return Ticks(ms * 1'000'000); }
BucketSpan bucket(std::int64_t from, std::int64_t to, std::int64_t number) {
  return {at_ms(from), at_ms(to) - at_ms(from), Clock(5), number, 400};
}

// Node 1 begins bucket 0 30 ms after node 0, and node 0 the next one 5 ms after node 1.
trace::Trace two_buckets() {
  trace::Trace t;
  t.buckets = {{kNodes[0], {bucket(100, 160, 0), bucket(165, 180, 1)}, 0},
               {kNodes[1], {bucket(130, 160, 0), bucket(160, 180, 1)}, 0}};
  return t;
}

// Node 2 is killed in bucket 0 of clock 5. At 200 ms the server hears of it, and at 400 who is left has met; node 2
// leaves the core with the step that they make.
trace::Trace lost_in_a_step() {
  trace::Trace t;
  t.buckets = {{kNodes[0], {bucket(430, 460, 0), bucket(460, 480, 1)}, 0},
               {kNodes[1], {bucket(440, 460, 0), bucket(460, 480, 1)}, 0}};
  for (const std::size_t node : {0U, 1U}) {
    const PhaseSpan computed{at_ms(100), 40ms, Clock(5), Phase::kComputeGrads};
    const PhaseSpan exchanged{at_ms(140), 360ms, Clock(5), Phase::kPsApplyGrads};
    const PhaseSpan next{at_ms(500), 40ms, Clock(6), Phase::kComputeGrads};
    t.workers.push_back({kWorkers[node], {computed, exchanged, next}, 0});
  }
  t.decisions = {{.at = at_ms(200), .kind = DecisionKind::kParted},
                 {.at = at_ms(400), .kind = DecisionKind::kFormed, .version = Version(5)},
                 {.at = at_ms(490), .kind = DecisionKind::kLost, .node = kNodes[2]}};
  return t;
}

TEST_CASE("a_sum_is_waited_for_by_who_began_a_bucket_early_for_who_began_it_last") {
  const trace::Trace trace = two_buckets();
  const SumWaits waits(trace, 1);
  const auto of_node_0 = waits.of(kNodes[0], Clock(5), at_ms(100), at_ms(190), {});
  CHECK((of_node_0.sum == 80ms && of_node_0.formation == 0ms));  // the rest is the step and its report
  CHECK(of_node_0.sum_for == SumWaits::Times{{kWorkers[1], 30ms}});
  const auto of_node_1 = waits.of(kNodes[1], Clock(5), at_ms(130), at_ms(190), {});
  CHECK((of_node_1.sum == 50ms && of_node_1.sum_for == SumWaits::Times{{kWorkers[0], 5ms}}));
  // What of a bucket was in the shadow of the backward pass nobody waited for.
  CHECK(waits.of(kNodes[0], Clock(5), at_ms(120), at_ms(190), {}).sum_for ==
        SumWaits::Times{{kWorkers[1], 10ms}});
  // Nodes of other stages sum among themselves.
  CHECK(SumWaits(trace, 2).of(kNodes[0], Clock(5), at_ms(100), at_ms(190), {}).sum_for.empty());
}

// Two of bucket_bytes each, one after the other on their ways: whoever has the first one later has the second one
// later.
TEST_CASE("of_buckets_that_are_under_way_together_the_ones_behind_the_first_were_begun_with_it") {
  trace::Trace trace;
  const auto with_0 = [](BucketSpan span, std::chrono::nanoseconds ahead) {
    span.ahead = ahead;
    return span;
  };
  trace.buckets = {{kNodes[0], {bucket(100, 110, 0), with_0(bucket(110, 120, 1), 10ms)}, 0},
                   {kNodes[1], {bucket(100, 111, 0), with_0(bucket(111, 121, 1), 11ms)}, 0}};
  const auto of_node_0 = [&] {
    return SumWaits(trace, 1).of(kNodes[0], Clock(5), at_ms(100), at_ms(130), {}).sum_for;
  };
  CHECK(of_node_0().empty());
  // One that begins them by themselves is waited for in each.
  trace.buckets[1].spans = {bucket(103, 111, 0), bucket(112, 121, 1)};
  CHECK(of_node_0() == SumWaits::Times{{kWorkers[1], 5ms}});
  CHECK(SumWaits(trace, 1).of(kNodes[1], Clock(5), at_ms(103), at_ms(130), {}).sum_for.empty());
}

TEST_CASE("without_its_buckets_a_sum_lasts_until_the_authority_had_the_report") {
  const SumWaits waits({}, 1);
  CHECK(waits.of(kNodes[0], Clock(5), at_ms(100), at_ms(190), at_ms(170)).sum == 70ms);
  CHECK(waits.of(kNodes[0], Clock(5), at_ms(100), at_ms(190), {}).sum == 0ms);
}

TEST_CASE("a_new_formation_is_the_lost_nodes_doing_and_so_is_the_sum_that_it_cut_off") {
  trace::Trace trace = lost_in_a_step();
  const auto parts = SumWaits(trace, 1).of(kNodes[0], Clock(5), at_ms(140), at_ms(500), {});
  CHECK(parts.formation == 230ms);  // until it sums again
  CHECK(parts.formation_for == SumWaits::Times{{kWorkers[2], 230ms}});
  CHECK(parts.sum == 110ms);
  CHECK(parts.sum_for == SumWaits::Times{{kWorkers[1], 10ms}, {kWorkers[2], 60ms}});
  // Where the server has seen the loss itself, the node is named with it, and may be out of the core by then.
  trace.decisions = {{.at = at_ms(200), .kind = DecisionKind::kLost, .node = kNodes[2]},
                     {.at = at_ms(200), .kind = DecisionKind::kParted, .node = kNodes[2]},
                     {.at = at_ms(400), .kind = DecisionKind::kFormed, .version = Version(5)}};
  CHECK(SumWaits(trace, 1).of(kNodes[0], Clock(5), at_ms(140), at_ms(500), {}).formation_for ==
        SumWaits::Times{{kWorkers[2], 230ms}});
  // One that never came to stand lasts to the end of the wait.
  trace.decisions.resize(2);
  CHECK(SumWaits(trace, 1).of(kNodes[0], Clock(5), at_ms(140), at_ms(500), {}).formation == 300ms);
}

TEST_CASE("of_two_formations_with_no_sum_between_them_each_is_its_own_lost_nodes_doing") {
  trace::Trace trace = lost_in_a_step();
  trace.decisions = {{.at = at_ms(200), .kind = DecisionKind::kParted, .node = kNodes[2]},
                     {.at = at_ms(250), .kind = DecisionKind::kFormed, .version = Version(5)},
                     {.at = at_ms(300), .kind = DecisionKind::kParted, .node = NodeId(3)},
                     {.at = at_ms(400), .kind = DecisionKind::kFormed, .version = Version(5)}};
  const auto parts = SumWaits(trace, 1).of(kNodes[0], Clock(5), at_ms(140), at_ms(500), {});
  CHECK(parts.formation_for == SumWaits::Times{{kWorkers[2], 50ms}, {WorkerId(3, 0), 130ms}});
}

TEST_CASE("explain_tells_of_an_all_reduce_sums_and_formations_and_blames_no_servers") {
  const trace::Trace trace = lost_in_a_step();
  const std::vector<Wait> waits = waits_of(trace, ExchangedBy::kAllreduce);
  REQUIRE(waits.size() == 2);
  CHECK((waits[0][WaitCause::kSum] == 110ms && waits[0][WaitCause::kFormation] == 230ms));
  CHECK(waits[0][WaitCause::kNetwork] == 20ms);
  const std::string wait = wait_text(waits[0], trace);
  CHECK_THAT(wait, Contains("230.000 ms  those that are left met anew; lost: worker 2.0 (230.000 ms)\n"));
  CHECK_THAT(wait,
             Contains("110.000 ms  the gradients of clock 5 were summed; for worker 2.0 (60.000 ms), 1.0 "
                      "(10.000 ms), the sum itself (40.000 ms)\n"));
  CHECK_THAT(wait, Contains("20.000 ms  its step, the report of clock 5 to the authority, and the answer\n"));
  Explained explained;
  explained.waits = waits;
  explained.waited = 720ms;
  explained.causes = costs_of(waits);
  const std::string text = explained_text(explained, trace);
  CHECK_THAT(text, !Contains("servers"));
  CHECK_THAT(text, Contains("2.0 (0.120 s), 1.0 (0.010 s), the sum itself (0.080 s)") &&
                       Contains("2.0 (0.470 s)") && Contains("formation: the 2 costliest"));
  // However long a cell is, the columns after it stand below each other.
  const auto place_in_line = [&](const std::string& what) {
    return text.find(what) - text.rfind('\n', text.find(what));
  };
  const auto borne = place_in_line("borne above all by");
  CHECK((place_in_line("0.0 (0.110 s), 1.0") == borne && place_in_line("1.0 (0.240 s), 0.0") == borne));
  CHECK_THAT(explained_json(explained, trace), Contains("\"lost_seconds\""));
}

}  // namespace
}  // namespace paceline
