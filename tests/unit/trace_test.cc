// Traces as files that come back as they were and damaged ones that do not, and one clock for several machines.
#include <catch2/catch.hpp>
#include <fstream>

#include "common/files/atomic_file.h"
#include "common/trace/align.h"
#include "common/trace/merge.h"
#include "common/trace/trace_file.h"
#include "common/trace/viewer_marks.h"
#include "tests/unit/temp_folder.h"

namespace paceline::trace {
namespace {

using namespace std::chrono_literals;
using Catch::Contains;
using paceline::testing::TempFolder;
using std::chrono::nanoseconds;

using Pass = schedule::PipelineRow::Pass;

const WorkerId kFast(0, 0), kSlow(1, 0);

// --- files

Process process_of(std::optional<ShardId> server, NodeId node, const std::string& machine) {
  Process process;
  process.server = server;
  process.node = node;
  process.machine = machine;
  process.wall_ns = 1'700'000'000'000'000'000;
  return process;
}

// Instants of a machine that has been up for a year.
constexpr std::int64_t kYear = 31'536'000'000'000'000;

Trace small_trace() {
  Trace t;
  t.processes = {process_of(kAuthority, NodeId(0), "m"), process_of(std::nullopt, NodeId(0), "m")};
  t.first_grant = Ticks(kYear + 1);
  Decision grant{.at = Ticks(kYear + 1), .kind = DecisionKind::kGranted, .worker = kFast, .clock = Clock(3)};
  grant.min_clock = Clock(1);
  grant.threshold = Threshold(2);
  grant.lpr = 1.0 / 3;
  grant.version = Version(1);
  grant.held = 12'345ns;
  grant.release = Release::kWorker;
  grant.by = kSlow;
  Decision hold{.at = Ticks(kYear + 7), .kind = DecisionKind::kHeld, .worker = kFast, .clock = Clock(4)};
  hold.threshold = Threshold::infinite();
  t.decisions = {grant, hold};
  t.decisions_left_out = 5;
  t.workers = {{kFast,
                {{Ticks(kYear + 2), 100ns, Clock(3), Phase::kBatch},
                 {Ticks(kYear + 102), 4'000'000'001ns, Clock(3), Phase::kComputeGrads}},
                17}};
  t.stages = {{NodeId(0), {{Ticks(kYear + 60), 20ns, Clock(3), {Pass::kRecompute, 12, 1}}}, 2}};
  t.buckets = {{NodeId(0),
                {{Ticks(kYear + 45), 3ns, Clock(1), 0, 4096, false},
                 {Ticks(kYear + 48), 2ns, Clock(1), 0, 64, true, 3ns}},
                4}};
  t.shards = {{ShardId(0), {{Ticks(kYear + 50), 10ns, Version(2), Revision(9), 2}}, 0}};
  return t;
}

struct File {
  File() { REQUIRE(write_trace(path, small_trace()).is_ok()); }
  std::string text() const { return read_file(path, 1 << 20).value(); }
  void replace(const std::string& what, const std::string& with) {
    std::string content = text();
    const std::size_t at = content.find(what);
    REQUIRE(at != std::string::npos);
    content.replace(at, what.size(), with);
    REQUIRE(write_file_atomically(path, content).is_ok());
  }
  std::string fault() const {
    const auto read = read_trace_file(path);
    REQUIRE_FALSE(read.is_ok());
    CHECK(read.status().code() == StatusCode::kDataLoss);
    return read.status().message();
  }
  TempFolder folder;
  std::filesystem::path path = folder / "trace.json";
};

TEST_CASE("a_trace_comes_back_as_it_was_to_the_nanosecond") {
  const File file;
  const auto read = read_trace_file(file.path);
  REQUIRE(read.is_ok());
  const Trace expected = small_trace();
  CHECK(read->decisions == expected.decisions);
  CHECK(read->decisions_left_out == 5);
  REQUIRE(read->workers.size() == 1);
  CHECK(read->workers[0].left_out == 17);
  REQUIRE(read->workers[0].spans.size() == 2);
  CHECK(read->workers[0].spans[1].begin == Ticks(kYear + 102));
  CHECK(read->workers[0].spans[1].length == 4'000'000'001ns);
  REQUIRE(read->buckets.size() == 1);
  CHECK((read->buckets[0].node == NodeId(0) && read->buckets[0].left_out == 4));
  CHECK(read->buckets[0].spans == expected.buckets[0].spans);
  REQUIRE(read->shards.size() == 1);
  CHECK(read->shards[0].spans == expected.shards[0].spans);
  REQUIRE(read->stages.size() == 1);
  REQUIRE(read->stages[0].spans.size() == 1);
  const schedule::PassSpan& pass = read->stages[0].spans[0];
  CHECK((pass.begin == Ticks(kYear + 60) && pass.length == 20ns && pass.clock == Clock(3)));
  CHECK(pass.row == schedule::PipelineRow{Pass::kRecompute, 12, 1});
  CHECK(read->first_grant == expected.first_grant);
  CHECK(read->left_out() == 28);
  REQUIRE(read->processes.size() == 2);
  CHECK(read->processes[0].machine == "m");
}

TEST_CASE("viewers_have_curves_and_an_arrow_to_the_end_of_each_wait") {
  const auto decision = [](std::int64_t at, DecisionKind kind, WorkerId worker, std::int64_t clock) {
    Decision d{.at = Ticks(at), .kind = kind, .worker = worker, .clock = Clock(clock)};
    if (kind == DecisionKind::kHeld) d.threshold = Threshold(1);
    return d;
  };
  Trace trace;
  trace.decisions = {
      decision(100, DecisionKind::kHeld, kFast, 4),
      decision(150, DecisionKind::kHeld, kSlow, 9),
      decision(200, DecisionKind::kGranted, kFast, 4),
      decision(300, DecisionKind::kHeld, kFast, 5),
      {.at = Ticks(350), .kind = DecisionKind::kLost, .node = kSlow.node},
      {.at = Ticks(360), .kind = DecisionKind::kWindow, .threshold = Threshold::infinite(), .lpr = 2.5}};
  trace.decisions[2].release = Release::kWorker;
  trace.decisions[2].by = kSlow;
  const std::vector<CurvePoint> points = curves_of(trace);
  std::vector<std::pair<std::int64_t, double>> held, threshold, lpr;
  for (const CurvePoint& point : points) {
    const std::string curve = point.curve;
    (curve == "LPR" ? lpr : curve == "threshold" ? threshold : held).emplace_back(point.at.ns, point.value);
  }
  CHECK(held == decltype(held){{100, 1}, {150, 2}, {200, 1}, {300, 2}, {350, 1}});
  CHECK(threshold == decltype(held){{100, 1}});
  CHECK(lpr == decltype(held){{360, 2.5}});

  CHECK(arrows_of(trace).empty());
  trace.workers = {
      {kFast,
       {{Ticks(110), 95ns, Clock(4), Phase::kBarrier}, {Ticks(310), 60ns, Clock(5), Phase::kBarrier}}}};
  const std::vector<Arrow> arrows = arrows_of(trace);
  REQUIRE(arrows.size() == 1);
  CHECK((arrows[0].from == kSlow && arrows[0].left == Ticks(200)));
  CHECK((arrows[0].to == kFast && arrows[0].arrived == Ticks(204)));
  // The clocks of two machines may be apart: an arrow goes forward all the same.
  trace.decisions[2].at = Ticks(207);
  CHECK(arrows_of(trace).at(0).left == Ticks(204));
}

TEST_CASE("a_damaged_trace_is_refused_with_file_and_line") {
  File file;
  const std::string name = file.path.string();
  SECTION("cut off") {
    const std::string text = file.text();
    REQUIRE(write_file_atomically(file.path, text.substr(0, text.size() - 4)).is_ok());
    CHECK_THAT(file.fault(), Contains(name) && Contains("cut off after line"));
  }
  SECTION("cut off within a line") {
    const std::string text = file.text();
    REQUIRE(write_file_atomically(file.path, text.substr(0, text.find("\"COMPUTE_GRADS\"") + 5)).is_ok());
    CHECK_THAT(file.fault(), Contains(name + ":") && Contains("no event"));
  }
  SECTION("garbage in a line") {
    file.replace("\"COMPUTE_GRADS\"", "COMPUTE_GRADS\"");
    CHECK_THAT(file.fault(), Contains(name + ":") && Contains("no event"));
  }
  SECTION("a phase that there is not") {
    file.replace("COMPUTE_GRADS", "DAYDREAMING");
    CHECK_THAT(file.fault(),
               Contains(name + ":") && Contains("\"DAYDREAMING\", expected one of the nine phases"));
  }
  SECTION("a pass that there is not") {
    file.replace("\"R12.1\"", "\"X12.1\"");
    CHECK_THAT(file.fault(), Contains("a pass \"X12.1\", expected F, R or B"));
  }
  SECTION("spans that overlap") {
    file.replace("\"dur\":0.100", "\"dur\":90000.100");
    CHECK_THAT(file.fault(), Contains("before the one before it of worker 0.0 has ended"));
  }
  SECTION("a negative length") {
    file.replace("\"dur\":0.100", "\"dur\":-0.100");
    CHECK_THAT(file.fault(), Contains("a length below 0"));
  }
  SECTION("a time that no run has") {
    file.replace("\"dur\":0.100", "\"dur\":1e300");
    CHECK_THAT(file.fault(), Contains("expected one of a run"));
  }
  SECTION("a process that is none") {
    file.replace("\"pid\":1000", "\"pid\":9000000000000000");
    CHECK_THAT(file.fault(), Contains("expected one of a server or a node"));
  }
  SECTION("something after a line's end") {
    file.replace("\"COMPUTE_GRADS\",", std::string("\"COMPUTE_GRADS\",\0", 17));
    CHECK_THAT(file.fault(), Contains(name + ":") && Contains("a NUL"));
  }
  SECTION("a worker that is none") {
    file.replace("\"worker\":\"0.0\"", "\"worker\":\"0\"");
    CHECK_THAT(file.fault(), Contains("expected NODE.THREAD"));
  }
  SECTION("decisions that go back in time") {
    file.replace("\"ts\":0.000", "\"ts\":99.000");
    CHECK_THAT(file.fault(), Contains("earlier than the one before it"));
  }
  SECTION("a line that is missing") {
    const std::string text = file.text();
    const std::size_t begin = text.find("{\"ph\":\"X\"");
    file.replace(text.substr(begin, text.find('\n', begin) + 1 - begin), "");
    CHECK_THAT(file.fault(), Contains("lines are missing"));
  }
  SECTION("another program's trace") {
    REQUIRE(write_file_atomically(file.path, "[{\"ph\":\"X\"}]\n").is_ok());
    CHECK_THAT(file.fault(), Contains(name + ":1: no trace of Paceline's"));
  }
  SECTION("a line without an end") {
    REQUIRE(write_file_atomically(file.path, std::string(100'000, '[')).is_ok());
    CHECK_THAT(file.fault(), Contains(name + ":1: a line longer than"));
  }
  SECTION("nothing") {
    REQUIRE(write_file_atomically(file.path, "").is_ok());
    CHECK_THAT(file.fault(), Contains("cut off after line 0"));
  }
}

TEST_CASE("a_number_that_no_run_has_is_refused_before_anything_is_computed_with_it") {
  File file;
  const auto [what, with] = GENERATE(table<std::string, std::string>({
      {"\"clock\":3", "\"clock\":1e300"},
      {"\"clock\":3", "\"clock\":-1"},
      {"\"clock\":3", "\"clock\":9223372036854775807"},
      {"\"clock\":3", "\"clock\":18446744073709551615"},
      {"\"threshold\":2", "\"threshold\":9223372036854775807"},
      {"\"pid\":1000", "\"pid\":9223372036854775807"},
      {"\"tid\":1000001", "\"tid\":-9223372036854775808"},
      {"\"left_out\":17}", "\"left_out\":9223372036854775807}"},
      {"\"origin_ns\":", "\"origin_ns\":9000000000000000000,\"was\":"},
  }));
  file.replace(what, with);
  CHECK_THAT(file.fault(), Contains(file.path.string() + ":") && Contains("expected a whole number from"));
}

TEST_CASE("a_trace_that_is_not_there_is_not_found") {
  const TempFolder folder;
  CHECK(read_trace_file(folder / "trace.json").status().code() == StatusCode::kNotFound);
  const auto merged = merge_parts(folder.path());
  CHECK(merged.status().code() == StatusCode::kNotFound);
  CHECK_THAT(merged.status().message(), Contains("run.trace: true"));
}

// --- one clock

// Node 1 on a machine whose clock is `behind` the authority's: three iterations, messages take `way`.
std::pair<Trace, Trace> two_machines(nanoseconds behind, nanoseconds way) {
  Trace authority, node;
  authority.processes = {process_of(kAuthority, NodeId(0), "a")};
  node.processes = {process_of(std::nullopt, NodeId(1), "b")};
  node.workers.push_back({kSlow, {}, 0});
  std::vector<PhaseSpan>& spans = node.workers[0].spans;
  Ticks now{1'000'000'000'000};
  for (std::int64_t clock = 0; clock < 3; ++clock) {
    authority.decisions.push_back(
        {.at = now, .kind = DecisionKind::kGranted, .worker = kSlow, .clock = Clock(clock)});
    now = now + way;
    if (clock > 0) spans.back().length = now + -behind - spans.back().begin;
    spans.push_back({now + -behind, 1ms, Clock(clock), Phase::kTCacheParam});
    spans.push_back({now + -behind + 1ms, 30ms, Clock(clock), Phase::kComputeGrads});
    now = now + 31ms;
    spans.push_back({now + -behind, 1ms, Clock(clock), Phase::kPsApplyGrads});
    now = now + way;
    authority.decisions.push_back(
        {.at = now, .kind = DecisionKind::kReported, .worker = kSlow, .clock = Clock(clock)});
  }
  return {authority, node};
}

TEST_CASE("clocks_of_two_machines_are_brought_together_by_grants_and_reports") {
  const nanoseconds behind = GENERATE(nanoseconds(3h), nanoseconds(-2s), nanoseconds(0));
  const nanoseconds way = 2ms;
  const auto [authority, node] = two_machines(behind, way);
  const Alignment got = alignment(authority, authority.processes[0], node, node.processes[0]);
  REQUIRE(got.error.has_value());
  CHECK(*got.error <= way);
  CHECK(std::chrono::abs(got.shift - behind) <= *got.error);

  const Trace whole = joined({node, authority});
  REQUIRE(whole.processes.size() == 2);
  CHECK(whole.processes[0].server == kAuthority);
  CHECK(whole.processes[1].moved == got.shift);
  CHECK(whole.processes[1].error == got.error);
  CHECK(whole.workers[0].spans[0].begin >= whole.decisions[0].at);
}

TEST_CASE("clocks_that_drift_apart_by_more_than_messages_take_are_moved_to_the_middle_of_it") {
  Trace authority, node;
  authority.processes = {process_of(kAuthority, NodeId(0), "a")};
  node.processes = {process_of(std::nullopt, NodeId(1), "b")};
  node.processes[0].wall_ns += 3'600'000'000'000;  // wall clocks are an hour apart, and not asked
  node.workers.push_back({kSlow, {}, 0});
  const nanoseconds way = 1ms;
  const auto on_node = [](Ticks at) { return Ticks(at.ns + at.ns / 20'000); };  // 50 ppm fast
  Ticks now{0};
  for (std::int64_t clock = 0; clock < 10; ++clock) {
    authority.decisions.push_back(
        {.at = now, .kind = DecisionKind::kGranted, .worker = kSlow, .clock = Clock(clock)});
    std::vector<PhaseSpan>& spans = node.workers[0].spans;
    spans.push_back({on_node(now + way), 1ms, Clock(clock), Phase::kTCacheParam});
    spans.push_back({on_node(now + way) + 1ms, 1ms, Clock(clock), Phase::kComputeGrads});
    now = now + 100s;
    spans.push_back({on_node(now + -way), 1ms, Clock(clock), Phase::kPsApplyGrads});
    authority.decisions.push_back(
        {.at = now, .kind = DecisionKind::kReported, .worker = kSlow, .clock = Clock(clock)});
  }
  const Alignment got = alignment(authority, authority.processes[0], node, node.processes[0]);
  REQUIRE(got.error.has_value());
  CHECK(*got.error < 100ms);
  CHECK(std::chrono::abs(got.shift) <= *got.error);         // at the run's begin
  CHECK(std::chrono::abs(got.shift + 50ms) <= *got.error);  // at its end
}

TEST_CASE("processes_of_one_machine_have_one_clock") {
  auto [authority, node] = two_machines(1s, 2ms);
  node.processes[0].machine = "a";
  const Alignment got = alignment(authority, authority.processes[0], node, node.processes[0]);
  CHECK(got.shift == nanoseconds(0));
  CHECK(got.error == nanoseconds(0));
}

TEST_CASE("without_the_authority_s_part_no_error_is_promised_across_machines") {
  auto [authority, node] = two_machines(1s, 2ms);
  Trace other, same;
  other.processes = {process_of(std::nullopt, NodeId(0), "a")};
  same.processes = {process_of(std::nullopt, NodeId(2), "a")};
  node.processes[0].wall_ns += 1'000'000'000;
  const Trace whole = joined({other, node, same});
  REQUIRE(whole.processes.size() == 3);
  CHECK(whole.processes[0].error == nanoseconds(0));  // the others are moved onto its clock
  CHECK_FALSE(whole.processes[1].error.has_value());
  CHECK(whole.processes[1].moved == nanoseconds(1s));
  CHECK(whole.processes[2].error == nanoseconds(0));
}

TEST_CASE("where_nothing_was_said_the_wall_clocks_are_taken_and_no_error_is_promised") {
  auto [authority, node] = two_machines(1s, 2ms);
  authority.decisions.clear();
  node.processes[0].wall_ns += 1'000'000'000;
  const Alignment got = alignment(authority, authority.processes[0], node, node.processes[0]);
  CHECK(got.shift == nanoseconds(1s));
  CHECK_FALSE(got.error.has_value());
}

}  // namespace
}  // namespace paceline::trace
