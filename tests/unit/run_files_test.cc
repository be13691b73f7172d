// summary.json, phases.csv and curve.csv: what is written is read back, and what is broken is named.
#include <catch2/catch.hpp>
#include <fstream>
#include <limits>

#include "common/files/atomic_file.h"
#include "common/report/csv.h"
#include "common/report/curve.h"
#include "common/report/phases_csv.h"
#include "common/report/run_summary.h"
#include "common/timing/histogram.h"
#include "tests/unit/temp_folder.h"

using namespace paceline;
using Catch::Contains;
using testing::TempFolder;

namespace {

std::string text_of(const std::filesystem::path& path) { return read_file(path, 1 << 20).value(); }

void replace(std::string& text, const std::string& what, const std::string& with) {
  const std::size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  text.replace(at, what.size(), with);
}

PhaseTotals some_totals(std::int64_t scale) {
  PhaseTotals totals;
  for (std::size_t i = 0; i < kPhaseCount; ++i) {
    const auto ns = static_cast<std::int64_t>(i + 1) * 1'234'567 * scale;
    totals.phases[i] = {3, 3 * ns, ns / 2, {{histogram_bucket(ns), 2}, {histogram_bucket(2 * ns), 1}}};
    totals.wall_ns += 3 * ns;
  }
  totals[Phase::kPsParam] = {};
  return totals;
}

std::vector<WorkerPhases> some_workers() {
  return {
      {WorkerId(0, 0), some_totals(1)}, {WorkerId(0, 1), some_totals(2)}, {WorkerId(1, 0), some_totals(40)}};
}

RunSummary some_summary() {
  RunSummary s;
  s.policy = "dtssp";
  s.switches = {{"asp", Version(0), 0.0, Threshold::infinite()}, {"ssp", Version(12), 3.5, Threshold(2)}};
  s.nodes = 4;
  s.threads_per_node = 2;
  s.iterations = 800;
  s.wall_seconds = 12.25;
  s.final_version = Version(100);
  s.final_threshold = Threshold(5);
  s.max_grant_gap = Staleness(5);
  s.max_clock_gap = Staleness(6);
  s.test_accuracy = 0.8125;
  s.test_loss = 0.625;
  s.bytes_pushed = 1'000'000'007;
  s.bytes_pushed_early = 999;
  s.bytes_pulled = 2'000'000'011;
  s.bytes_shared = 3'000'000'017;
  s.pulls = 321;
  s.lost_nodes = 1;
  s.overruns = 2;
  s.staleness = {{0.75, 3}, {4.5, 17}};
  set_phases(s, some_totals(1));
  return s;
}

}  // namespace

TEST_CASE("a_summary_is_read_back_as_it_was_written") {
  const TempFolder folder;
  const RunSummary s = some_summary();
  REQUIRE(write_summary(folder.path(), s));
  const auto read = read_summary(folder.path());
  REQUIRE(read.is_ok());
  CHECK(to_json(read.value()) == to_json(s));
  CHECK(read->final_threshold == Threshold(5));
  CHECK(read->max_clock_gap == Staleness(6));
  CHECK(read->workers() == 8);
  CHECK(read->bytes_pushed_early == 999);
  REQUIRE(read->staleness.has_value());
  CHECK(read->staleness->clocks.mean == 0.75);
  CHECK(read->staleness->gradients.max == 17);
  REQUIRE(read->switches.size() == 2);
  CHECK(read->switches[0].threshold.is_infinite());
  CHECK(read->switches[1].policy == "ssp");
  CHECK(read->switches[1].version == Version(12));
  CHECK(read->switches[1].seconds == 3.5);
  CHECK(read->switches[1].threshold == Threshold(2));
  CHECK((*read)[Phase::kBatch].count == 3);
  CHECK((*read)[Phase::kBatch].mean_ms() == Approx(1.234567));
}

TEST_CASE("a_resumed_run_says_so_and_how_many_checkpoints_it_wrote_and_others_do_not") {
  const TempFolder folder;
  RunSummary s = some_summary();
  CHECK(to_json(s).find("generation") == std::string::npos);
  CHECK(to_json(s).find("checkpoints") == std::string::npos);
  s.generation = 3;
  s.resumed_from = Version(118);
  s.checkpoints = {7, 1};
  REQUIRE(write_summary(folder.path(), s));
  const auto read = read_summary(folder.path());
  REQUIRE(read.is_ok());
  CHECK(read->generation == 3);
  CHECK(read->resumed_from == Version(118));
  CHECK((read->checkpoints->written == 7 && read->checkpoints->failed == 1));
}

TEST_CASE("stragglers_are_in_a_summary_by_name_and_not_where_there_were_none") {
  RunSummary s = some_summary();
  CHECK(to_json(s).find("stragglers") == std::string::npos);
  s.stragglers = {{WorkerId(3, 1), 0.25, 0.5, 1.5}};
  const auto read = parse_summary(to_json(s));
  REQUIRE(read.is_ok());
  REQUIRE(read->stragglers.size() == 1);
  CHECK(read->stragglers[0].worker == WorkerId(3, 1));
  CHECK((read->stragglers[0].relative == 0.25 && read->stragglers[0].individual == 0.5));
  CHECK(read->stragglers[0].iteration_seconds == 1.5);
  std::string wrong = to_json(s);
  wrong.replace(wrong.find("\"3.1\""), 5, "\"3-1\"");
  CHECK_THAT(parse_summary(wrong).status().message(), Contains("worker must be like"));
}

TEST_CASE("a_run_into_which_nodes_came_says_which_and_when_and_others_do_not") {
  RunSummary s = some_summary();
  CHECK(to_json(s).find("returned") == std::string::npos);
  CHECK(to_json(s).find("\"late") == std::string::npos);
  s.returned_nodes = 2;
  s.returned = {"node 1 at version 118", "node 1 at version 240"};
  s.late_nodes = 1;
  s.late = {"node 3 at version 7"};
  const auto read = parse_summary(to_json(s));
  REQUIRE(read.is_ok());
  CHECK((read->returned_nodes == 2 && read->late_nodes == 1));
  CHECK((read->returned == s.returned && read->late == s.late));
}

TEST_CASE("what_befell_a_run_is_counted_and_not_named_where_it_did_not") {
  using Count = std::pair<const char*, std::int64_t RunSummary::*>;
  const auto [key, count] = GENERATE(values<Count>({{"reconnects", &RunSummary::reconnects},
                                                    {"lines_dropped", &RunSummary::lines_dropped},
                                                    {"samples_left_out", &RunSummary::samples_left_out},
                                                    {"iterations_undone", &RunSummary::iterations_undone}}));
  RunSummary s = some_summary();
  CHECK(to_json(s).find(key) == std::string::npos);
  s.*count = 3;
  const auto read = parse_summary(to_json(s));
  REQUIRE(read.is_ok());
  CHECK((*read).*count == 3);
}

TEST_CASE("the_keys_of_a_summary_are_the_contracts_in_its_order") {
  const std::string json = to_json(some_summary());
  std::size_t at = 0;
  for (const char* key : {"status",
                          "policy",
                          "switches",
                          "nodes",
                          "threads_per_node",
                          "workers",
                          "iterations",
                          "wall_seconds",
                          "final_version",
                          "final_threshold",
                          "max_grant_gap",
                          "max_clock_gap",
                          "test_accuracy",
                          "test_loss",
                          "bytes_pushed",
                          "bytes_pushed_early",
                          "bytes_pulled",
                          "bytes_shared",
                          "pulls",
                          "lost_nodes",
                          "overruns",
                          "staleness",
                          "clocks",
                          "mean",
                          "max",
                          "gradients",
                          "phases",
                          "BATCH",
                          "total_seconds",
                          "mean_ms",
                          "count",
                          "hidden_seconds",
                          "COMPUTE_GRADS",
                          "T_CACHE_PARAM",
                          "unaccounted_seconds"}) {
    INFO(key);
    const std::size_t found = json.find("\"" + std::string(key) + "\":", at);
    REQUIRE(found != std::string::npos);
    at = found;
  }
  CHECK(json.find("reason") == std::string::npos);
}

TEST_CASE("of_few_emulated_steps_two_may_be_late_and_of_many_one_in_a_hundred") {
  CHECK_FALSE(too_many_overruns(1, 80));
  CHECK_FALSE(too_many_overruns(2, 2));
  CHECK(too_many_overruns(3, 80));
  CHECK_FALSE(too_many_overruns(10, 1000));
  CHECK(too_many_overruns(11, 1000));
}

TEST_CASE("infinity_and_what_was_not_measured_are_null") {
  RunSummary s = some_summary();
  s.final_threshold = Threshold::infinite();
  s.test_accuracy.reset();
  s.test_loss = std::numeric_limits<double>::quiet_NaN();
  s.status = "failed";
  s.reason = "node 2 lost";
  const std::string json = to_json(s);
  CHECK_THAT(json, Contains("\"final_threshold\": null") && Contains("\"test_accuracy\": null") &&
                       Contains("\"test_loss\": null"));
  const auto read = parse_summary(json);
  REQUIRE(read.is_ok());
  CHECK(read->final_threshold.is_infinite());
  CHECK_FALSE(read->test_accuracy.has_value());
  CHECK(read->reason == "node 2 lost");
}

TEST_CASE("a_broken_summary_is_refused_with_its_path") {
  const TempFolder folder;
  CHECK(read_summary(folder.path()).status().code() == StatusCode::kNotFound);
  const std::string good = to_json(some_summary());
  for (const auto& [what, with] : {std::pair{"\"pulls\"", "\"pushes\""}, {"\"dtssp\"", "7"}, {"{", "["}}) {
    std::string bad = good;
    replace(bad, what, with);
    REQUIRE(write_file_atomically(folder / "summary.json", bad));
    const Status status = read_summary(folder.path()).status();
    CHECK(status.code() == StatusCode::kDataLoss);
    CHECK_THAT(status.message(), Contains("summary.json") && !Contains("json.exception"));
  }
  const auto fault_of = [&](const std::string& text) {
    REQUIRE(write_file_atomically(folder / "summary.json", text));
    const Status status = read_summary(folder.path()).status();
    CHECK(status.code() == StatusCode::kDataLoss);
    return status.message();
  };
  const std::string path = (folder / "summary.json").string();
  CHECK(fault_of(good.substr(0, 100)) == path + ": cut off after 100 bytes");
  CHECK(fault_of("") == path + ": cut off after 0 bytes");
  CHECK(fault_of("{]}") == path + ": no JSON at byte 2 of 3");
  // Whoever built it whole could not take it down again.
  std::string nested;
  for (int i = 0; i < 100'000; ++i) nested += "{\"a\":";
  CHECK_FALSE(fault_of(nested + "1" + std::string(100'000, '}')).empty());
}

TEST_CASE("phases_are_read_back_to_the_same_totals") {
  const TempFolder folder;
  const std::vector<WorkerPhases> workers = some_workers();
  REQUIRE(write_phases(folder.path(), workers));
  const auto read = read_phases(folder.path());
  REQUIRE(read.is_ok());
  REQUIRE(read->size() == 3);
  for (std::size_t w = 0; w < 3; ++w) {
    CHECK(read.value()[w].worker == workers[w].worker);
    CHECK(read.value()[w].totals.wall_ns == workers[w].totals.wall_ns);
    for (std::size_t i = 0; i < kPhaseCount; ++i) {
      const PhaseStat& a = read.value()[w].totals.phases[i];
      const PhaseStat& b = workers[w].totals.phases[i];
      CHECK(a.count == b.count);
      CHECK(a.total_ns == b.total_ns);
      CHECK(a.hidden_ns == b.hidden_ns);
      CHECK(a.histogram == b.histogram);
    }
  }
}

TEST_CASE("phases_csv_has_a_row_for_each_worker_and_phase_and_one_for_the_rest") {
  const TempFolder folder;
  PhaseTotals totals;
  totals[Phase::kBatch] = {4, 8'000'000, 500'000'000, {{histogram_bucket(2'000'000), 4}}};
  totals.wall_ns = 10'000'000;
  REQUIRE(write_phases(folder.path(), std::vector<WorkerPhases>{{WorkerId(1, 3), totals}}));
  const std::string text = text_of(folder / "phases.csv");
  CHECK(std::count(text.begin(), text.end(), '\n') == 1 + 9 + 1);
  CHECK_THAT(text, Contains("\n1,3,BATCH,4,0.008000000,2,2.015232,2.015232,0.8,0.500000000\n"));
  CHECK_THAT(text, Contains("\n1,3,unaccounted,0,0.002000000,0,0,0,0.2,"));
}

TEST_CASE("what_phases_took_so_far_is_read_where_a_run_did_not_come_to_its_end") {
  const TempFolder folder;
  PhaseTimes times;
  times[Phase::kBatch] = 8'000'000;
  times[Phase::kBarrier] = 1;
  times.wall = 10'000'000;
  REQUIRE(write_phases_so_far(folder.path(), std::vector<WorkerTimes>{{WorkerId(1, 3), times}}));
  CHECK_THAT(text_of(folder / "phases_so_far.csv"),
             Contains("node,thread,phase,total_seconds\n1,3,BATCH,0.008000000\n") &&
                 Contains("\n1,3,unaccounted,0.001999999\n"));
  CHECK(read_phases(folder.path()).status().code() == StatusCode::kNotFound);
  const auto there = read_phases_there(folder.path());
  REQUIRE(there.is_ok());
  REQUIRE((there->so_far && there->workers.size() == 1 && there->lacking.size() == 1));
  CHECK_THAT(there->lacking.front(), Contains("no phases.csv"));
  const auto& [worker, totals] = there->workers.front();
  CHECK((worker == WorkerId(1, 3) && times_of(totals) == times));
  CHECK_FALSE(is_counted(totals[Phase::kBatch]));
  CHECK(is_counted(totals[Phase::kStep]));

  std::string bad = text_of(folder / "phases_so_far.csv");
  replace(bad, "BARRIER", "LUNCH");
  REQUIRE(write_file_atomically(folder / "phases_so_far.csv", bad));
  CHECK_THAT(read_phases_there(folder.path()).status().message(),
             Contains("phases_so_far.csv:7: phase is 'LUNCH', expected one of the nine"));

  REQUIRE(write_phases(folder.path(), some_workers()));  // the end
  CHECK_FALSE(std::filesystem::exists(folder / "phases_so_far.csv"));
  CHECK_FALSE(read_phases_there(folder.path())->so_far);
}

TEST_CASE("broken_phases_are_refused_with_file_line_and_cell") {
  const TempFolder folder;
  REQUIRE(write_phases(folder.path(), some_workers()));
  const std::string good = text_of(folder / "phases.csv");
  const auto message_after = [&](const std::string& what, const std::string& with) {
    std::string bad = good;
    replace(bad, what, with);
    REQUIRE(write_file_atomically(folder / "phases.csv", bad));
    const Status status = read_phases(folder.path()).status();
    CHECK(status.code() == StatusCode::kDataLoss);
    return status.message();
  };
  CHECK_THAT(message_after("node,thread", "nodes,thread"), Contains("phases.csv:1: header is"));
  CHECK_THAT(message_after("BATCH", "LUNCH"),
             Contains("phases.csv:2: phase is 'LUNCH', expected one of the nine"));
  CHECK_THAT(message_after("BATCH,3,", "BATCH,three,"), Contains("count is 'three', expected an integer"));
  CHECK_THAT(message_after("BATCH,3,", "BATCH,4,"),
             Contains("worker 0.0: BATCH: histogram of 3 occurrences"));
  CHECK_THAT(message_after("0,0,BATCH", "0,BATCH"), Contains("phases.csv:2: 9 cells, expected 10"));
  CHECK_THAT(message_after("0,0,BATCH", "0,-1,BATCH"), Contains("thread is '-1'"));
  REQUIRE(write_file_atomically(folder / "phases.csv", good.substr(0, good.size() - 5)));
  CHECK_THAT(read_phases(folder.path()).status().message(), Contains("the last line is cut"));
  REQUIRE(write_file_atomically(folder / "phases.csv", good));
  std::filesystem::remove(folder / "phases_histogram.csv");
  CHECK(read_phases(folder.path()).status().code() == StatusCode::kNotFound);
}

TEST_CASE("a_curve_is_read_back_and_its_columns_are_the_contracts") {
  const TempFolder folder;
  const std::vector<CurveRow> rows = {
      {.seconds = 12.5,
       .version = Version(400),
       .threshold = Threshold(3),
       .train_loss = 1.204,
       .test_accuracy = 0.1,
       .test_loss = 1.5,
       .iterations = 6412,
       .learning_rate = 0.025},
      {.seconds = 14.75, .version = Version(460), .threshold = Threshold::infinite(), .lpr = 6.2},
      {.seconds = 15,
       .version = Version(461),
       .threshold = Threshold(4),
       .lpr = std::numeric_limits<double>::infinity(),
       .train_accuracy = 1.0 / 3.0}};
  REQUIRE(write_curve(folder.path(), rows));
  CHECK(text_of(folder / "curve.csv") ==
        "seconds,version,threshold,lpr,train_loss,train_accuracy,test_accuracy,test_loss,iterations,"
        "learning_rate\n"
        "12.5,400,3,,1.204,,0.1,1.5,6412,0.025\n"
        "14.75,460,inf,6.2,,,,,,\n"
        "15,461,4,inf,,0.3333333333333333,,,,\n");
  const auto read = read_curve(folder.path());
  REQUIRE(read.is_ok());
  REQUIRE(read->size() == 3);
  CHECK(read.value()[0].train_loss == 1.204);
  CHECK(read.value()[0].test_loss == 1.5);
  CHECK((read.value()[0].iterations == 6412 && read.value()[0].learning_rate == 0.025));
  CHECK_FALSE(read.value()[1].learning_rate.has_value());
  CHECK_FALSE(read.value()[1].iterations.has_value());
  CHECK_FALSE(read.value()[0].lpr.has_value());
  CHECK(read.value()[1].threshold.is_infinite());
  CHECK(read.value()[2].lpr == std::numeric_limits<double>::infinity());
  CHECK(read.value()[2].train_accuracy == 1.0 / 3.0);
}

TEST_CASE("a_curve_that_is_resumed_has_the_rows_up_to_that_version_and_goes_on") {
  const TempFolder folder;
  {
    auto writer = CurveWriter::open(folder.path());
    REQUIRE(writer.is_ok());
    for (const std::int64_t version : {10, 30, 20}) {
      REQUIRE(writer->append({1.0, Version(version), Threshold(3)}).is_ok());
    }
  }
  std::ofstream(folder / "curve.csv", std::ios::app) << "1.5,19,3";  // cut by a crash
  auto writer = CurveWriter::resume(folder.path(), Version(20));
  INFO(writer.status().message());
  REQUIRE(writer.is_ok());
  REQUIRE(writer->append({2.0, Version(25), Threshold(3)}).is_ok());
  const auto read = read_curve(folder.path());
  REQUIRE(read.is_ok());
  REQUIRE(read->size() == 3);
  CHECK((read->at(0).version == Version(10) && read->at(1).version == Version(20)));
  CHECK(read->at(2).version == Version(25));
}

TEST_CASE("a_curve_that_is_missing_is_begun_by_a_resume") {
  const TempFolder folder;
  REQUIRE(CurveWriter::resume(folder.path(), Version(20)).is_ok());
  CHECK(read_curve(folder.path())->empty());
}

TEST_CASE("a_broken_curve_is_refused_with_file_and_line") {
  const TempFolder folder;
  REQUIRE(write_curve(folder.path(), std::vector<CurveRow>(2)));
  std::string bad = text_of(folder / "curve.csv");
  replace(bad, "0,0,0,,,,,,,\n0,0,0,", "0,0,0,,,,,,,\n0,0,many,");
  REQUIRE(write_file_atomically(folder / "curve.csv", bad));
  CHECK_THAT(read_curve(folder.path()).status().message(),
             Contains("curve.csv:3: threshold is 'many', expected an integer"));
}

TEST_CASE("seconds_are_written_exactly") {
  CHECK(csv::seconds_of(0) == "0.000000000");
  CHECK(csv::seconds_of(1'234'567'890'123) == "1234.567890123");
  CHECK(csv::seconds_of(-5) == "-0.000000005");
}
