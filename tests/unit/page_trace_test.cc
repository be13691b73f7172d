// What of a trace comes onto the page of a run: which steps its timeline shows.
#include "common/page/page_trace.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "common/page/clock_range.h"
#include "tests/unit/temp_folder.h"
#include "tools/report.h"

namespace paceline {
namespace {

using Catch::Contains;
using nlohmann::ordered_json;

constexpr std::chrono::nanoseconds kStep = std::chrono::milliseconds(10);

// Two workers with ten iterations of 10 ms each, in two phases; the second begins 1 ms later.
trace::Trace two_workers() {
  trace::Trace trace;
  for (const WorkerId worker : {WorkerId(0, 0), WorkerId(1, 0)}) {
    trace.workers.push_back({worker, {}, 0});
    Ticks at = Ticks(5'000'000'000) + std::chrono::milliseconds(worker.node.value);
    for (Clock clock(0); clock < Clock(10); clock = clock.next(), at = at + kStep) {
      auto& spans = trace.workers.back().spans;
      spans.push_back({at, kStep / 2, clock, Phase::kComputeGrads});
      spans.push_back({at + kStep / 2, kStep / 2, clock, Phase::kBarrier});
      trace::Decision granted{at, trace::DecisionKind::kGranted, worker};
      granted.clock = clock;
      trace::Decision reported{at + kStep, trace::DecisionKind::kReported, worker};
      reported.clock = clock;
      trace.decisions.push_back(granted);
      trace.decisions.push_back(reported);
    }
  }
  std::stable_sort(trace.decisions.begin(), trace.decisions.end(),
                   [](const trace::Decision& a, const trace::Decision& b) { return a.at < b.at; });
  trace.first_grant = trace.decisions.front().at;
  return trace;
}

ordered_json page_of(const trace::Trace& trace, SpanLimits spans) {
  PageTraceLimits limits;
  limits.spans = spans;
  return page_trace(trace, limits);
}

// [clock, …] of the timeline, of all workers.
std::multiset<int> clocks_of(const ordered_json& page) {
  std::multiset<int> clocks;
  for (const auto& worker : page.at("spans")) {
    for (const auto& span : worker) clocks.insert(span.at(3).get<int>());
  }
  return clocks;
}

TEST_CASE("a_timeline_shows_the_newest_steps_or_those_that_were_asked_for") {
  const trace::Trace trace = two_workers();
  CHECK(clocks_of(page_of(trace, {.most = 8})) == std::multiset<int>{8, 8, 9, 9, 9, 9});
  const ordered_json page = page_of(trace, {.clocks = ClockRange{Clock(3), Clock(4)}});
  CHECK(clocks_of(page) == std::multiset<int>{3, 3, 3, 3, 4, 4, 4, 4});
  CHECK(page.at("asked") == ordered_json::parse(R"({"clocks": [3, 4], "phases": 8, "traced": [0, 9]})"));
  CHECK(page.at("spans_from") == Approx(0.03));
  CHECK(page.at("spans").at(1).at(0) == ordered_json::parse("[1, 1000, 5000, 3]"));
}

TEST_CASE("of_a_trace_whose_authority_was_killed_the_timeline_is_there") {
  trace::Trace trace = two_workers();
  trace.decisions.clear();
  trace.first_grant.reset();
  const ordered_json page = page_of(trace, {.clocks = ClockRange{Clock(3), Clock(4)}});
  CHECK(page.at("workers").size() == 2);
  CHECK(clocks_of(page) == std::multiset<int>{3, 3, 3, 3, 4, 4, 4, 4});
  CHECK_FALSE(page.contains("gaps"));
  CHECK(page.contains("origin"));
  CHECK_FALSE(page_of(two_workers(), {}).contains("origin"));
  trace.workers.clear();
  CHECK(page_of(trace, {}).empty());
}

TEST_CASE("of_a_stretch_that_is_too_long_the_first_phases_are_shown_and_all_are_counted") {
  const ordered_json page = page_of(two_workers(), {.most = 5, .clocks = ClockRange{Clock(2), Clock(9)}});
  CHECK(clocks_of(page) == std::multiset<int>{2, 2, 2, 2, 3});
  CHECK(page.at("asked").at("phases") == 32);
}

TEST_CASE("of_clocks_that_the_trace_does_not_have_nothing_is_shown_and_it_says_which_it_has") {
  const ordered_json page = page_of(two_workers(), {.clocks = ClockRange{Clock(10), Clock(12)}});
  CHECK(clocks_of(page).empty());
  CHECK(page.at("asked") == ordered_json::parse(R"({"clocks": [10, 12], "phases": 0, "traced": [0, 9]})"));
}

TEST_CASE("clocks_are_two_numbers_in_order_and_go_with_a_page") {
  CHECK(*parse_clock_range("7..7") == ClockRange{Clock(7), Clock(7)});
  CHECK(*parse_clock_range("0..9223372036854775807") == ClockRange{Clock(0), Clock(INT64_MAX)});
  for (const char* wrong :
       {"", "..", "5", "5..", "..5", "5..4", "-1..4", "1..4x", "1...4", "1..9223372036854775808", " 1..2"}) {
    INFO(wrong);
    const auto range = parse_clock_range(wrong);
    REQUIRE_FALSE(range.is_ok());
    CHECK_THAT(range.status().message(), Contains("expected A..B"));
  }
  const testing::TempFolder folder;
  const auto refused = [&](const ReportOptions& options) {
    std::ostringstream out, err;
    CHECK(report(options, out, err) == 2);
    CHECK(out.str().empty());
    return err.str();
  };
  const std::string run = folder.path().string(), page = (folder / "page.html").string();
  CHECK_THAT(refused({.runs = {run}, .clocks = "1..2"}), Contains("--clocks goes with --html"));
  CHECK_THAT(refused({.runs = {run}, .html = page, .clocks = "9..1"}),
             Contains("--clocks: got \"9..1\", expected A..B"));
}

}  // namespace
}  // namespace paceline
