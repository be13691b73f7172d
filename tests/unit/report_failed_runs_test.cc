// `paceline report` of runs that failed, were killed, or lack what a finished run has.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/files/atomic_file.h"
#include "common/report/curve.h"
#include "common/report/read_run.h"
#include "tests/unit/line_of.h"
#include "tests/unit/report_fixture.h"
#include "tests/unit/temp_folder.h"
#include "tools/report_tables.h"

using namespace paceline;
using Catch::Contains;
using testing::line_of;
using testing::Outcome;
using testing::run_report;
using testing::TempFolder;
using testing::two_nodes;
using testing::write_run;

TEST_CASE("overruns_are_named_and_an_invalid_run_is_not_compared") {
  const TempFolder folder;
  FinishedRun few = two_nodes("few"), invalid = two_nodes("invalid");
  few.summary.overruns = 3;
  invalid.summary.status = "invalid";
  invalid.summary.reason = "9 of 20 emulated steps took longer";
  invalid.summary.overruns = 9;
  write_run(folder / "few", few);
  write_run(folder / "invalid", invalid);
  const std::string a = (folder / "few").string(), b = (folder / "invalid").string();
  const Outcome r = run_report({a, b});
  CHECK(line_of(r.out, "run", b) == b + " invalid ssp 20 0.200 0.000 0.200 0.500 80.00 %");
  CHECK_THAT(r.out, Contains(a + ": 3 emulated steps overran\n" + b +
                             ": invalid, so without changes: 9 of 20 emulated steps took longer\n"));
}

TEST_CASE("a_failed_run_says_why_and_a_run_without_evaluation_says_so") {
  const TempFolder folder;
  FinishedRun run = two_nodes("a");
  run.summary.status = "failed";
  run.summary.reason = "node 1 lost";
  run.summary.test_accuracy.reset();
  write_run(folder / "a", run);
  const Outcome r = run_report({(folder / "a").string()});
  CHECK(r.status == 0);
  CHECK_THAT(r.out, Contains("failed (node 1 lost)") && Contains("test accuracy not evaluated"));
}

TEST_CASE("a_directory_that_is_not_there_ends_in_one_line_and_status_2") {
  const TempFolder folder;
  write_run(folder / "good", two_nodes("good"));
  const Outcome r = run_report({(folder / "good").string(), (folder / "none").string()});
  CHECK(r.status == 2);
  CHECK(r.out.empty());
  CHECK_THAT(r.err, Contains("none: no such run directory"));
  CHECK(std::count(r.err.begin(), r.err.end(), '\n') == 1);
}

TEST_CASE("a_crashed_run_is_shown_as_far_as_it_came_and_what_it_lacks_is_named") {
  const TempFolder folder;
  const std::vector<CurveRow> rows = {{1.0, Version(10), Threshold(3), {}, 2.0, {}, {}},
                                      {3.5, Version(30), Threshold(4), 5.5, 1.5, {}, {}},
                                      {2.0, Version(20), Threshold(3), {}, {}, {}, 0.5}};
  REQUIRE(write_curve(folder.path(), rows));
  REQUIRE(write_file_atomically(folder / "config.yaml",
                                "cluster: {nodes: 3, threads_per_node: 1}\nsync: {policy: dtssp}\n"));
  const std::string name = folder.path().string();
  const Outcome r = run_report({name});
  CHECK(r.status == 0);
  CHECK_THAT(r.out, Contains(name + ": unfinished\n  policy dtssp, 3 nodes x 1 threads\n"
                                    "  version 30 after 3.500 s, threshold 4\n"
                                    "  test accuracy 50.00 % at last\n  no summary.json: "));
  CHECK_THAT(r.out, Contains("phases.csv: No such file"));

  // It may have been killed in the middle of a line.
  std::ofstream(folder / "curve.csv", std::ios::app) << "9.25,1";
  const std::string cut = run_report({name}).out;
  CHECK_THAT(cut, Contains("  version 30 after 3.500 s, threshold 4\n") &&
                      Contains("  curve.csv: the last line is cut, and left out\n"));
}

TEST_CASE("a_run_that_was_killed_says_where_its_time_went_as_far_as_its_nodes_had_said") {
  const TempFolder folder;
  PhaseTimes times;
  times[Phase::kComputeGrads] = 6'000'000'000;
  times[Phase::kBarrier] = 2'000'000'000;
  times.wall = 8'000'000'000;
  REQUIRE(write_phases_so_far(folder.path(), std::vector<WorkerTimes>{{WorkerId(0, 0), times}}));
  REQUIRE(write_file_atomically(folder / "config.yaml", "cluster: {nodes: 1}\nsync: {policy: bsp}\n"));
  const std::string name = folder.path().string();
  const Outcome r = run_report({name});
  CHECK(r.status == 0);
  CHECK_THAT(r.out, Contains("no phases.csv: what phases took is as the nodes' last heartbeats said"));
  CHECK(line_of(r.out, "phase", "BARRIER") == "BARRIER - - - 2.000 25.00 % - -");
  CHECK(line_of(r.out, "phase", "STEP") == "STEP 0.000 0.000 0.000 0.000 0.00 % 0 0.000");
  const Outcome csv = run_report(ReportOptions{.runs = {name}, .format = ReportFormat::kCsv});
  CHECK_THAT(csv.out, Contains(",all,BARRIER,,2.000000000,,,,0.25,\n"));
  const auto json =
      nlohmann::json::parse(run_report(ReportOptions{.runs = {name}, .format = ReportFormat::kJson}).out);
  const auto& barrier = json["runs"][0]["all"]["phases"]["BARRIER"];
  CHECK((barrier["total_seconds"] == 2.0 && barrier["count"].is_null() && barrier["p95_ms"].is_null()));

  // One that failed as all its nodes were lost has a summary, with phases of nobody.
  FinishedRun failed;
  failed.summary.status = "failed";
  failed.summary.policy = "bsp";
  REQUIRE(write_summary(folder.path(), failed.summary));
  CHECK(line_of(run_report({name}).out, "phase", "COMPUTE_GRADS") == "COMPUTE_GRADS - - - 6.000 75.00 % - -");
}

TEST_CASE("beside_other_runs_what_is_wrong_with_one_is_named_below_and_nothing_is_compared_with_it") {
  const TempFolder folder;
  write_run(folder / "good", two_nodes("good"));
  std::filesystem::create_directories(folder / "empty");
  write_run(folder / "corrupt", two_nodes("corrupt"));
  REQUIRE(write_file_atomically(folder / "corrupt/summary.json", "{"));
  write_run(folder / "old", two_nodes("old"));
  REQUIRE(write_file_atomically(folder / "old/phases.csv", "node,thread,phase\n"));
  const std::string good = (folder / "good").string(), corrupt = (folder / "corrupt").string();
  const Outcome r = run_report({good, (folder / "empty").string(), corrupt, (folder / "old").string()});
  CHECK(r.status == 0);
  CHECK_THAT(r.out, Contains("empty: unfinished, so without changes\n") &&
                        Contains("empty: no summary.json: the run is unfinished, or it was killed") &&
                        Contains("corrupt: unreadable, so without changes\n") &&
                        Contains("summary.json: cut off after 1 bytes\n") &&
                        Contains("phases.csv:1: header is 'node,thread,phase', expected"));
  // Its phases are there.
  CHECK(line_of(r.out, "run", corrupt + " unreadable") == corrupt + " unreadable - 0.200 0.000 0.200 - -");
  // Of the empty one nothing is known, and nothing is made up.
  const std::string empty = (folder / "empty").string(), old = (folder / "old").string();
  CHECK(line_of(r.out, "run", empty + " unfinished") == empty + " unfinished - - - - - -");
  CHECK(line_of(r.out, "phase s", "BARRIER") == "BARRIER 0.200 - 0.200 0.200");
  // The summary of the old one has the sums of both workers, whose own phases cannot be read.
  CHECK(line_of(r.out, "run", old + " ok") == old + " ok ssp 20 0.200 0.000 0.200 0.500 80.00 %");
  CHECK_THAT(r.out, Contains("old: its directory has the phases of 0 of 2 workers, so without changes\n"));
}

TEST_CASE("sums_of_a_run_that_lost_a_node_and_its_phases_are_shown_for_no_worker") {
  const TempFolder folder;
  FinishedRun lost = two_nodes("lost");
  lost.summary.lost_nodes = 1;
  write_run(folder / "whole", two_nodes("whole"));
  write_run(folder / "lost", lost);
  std::filesystem::remove(folder / "lost/phases.csv");
  const std::string whole = (folder / "whole").string(), name = (folder / "lost").string();
  const Outcome r = run_report({whole, name});
  CHECK(r.status == 0);
  CHECK(line_of(r.out, "run", name) == name + " ok, lost 1 ssp 20 - - - 0.500 80.00 %");
  CHECK(line_of(r.out, "phase s", "COMPUTE_GRADS") == "COMPUTE_GRADS 0.200 -");
}

TEST_CASE("a_run_that_failed_before_any_node_reported_is_still_shown") {
  const TempFolder folder;
  FinishedRun failed;
  failed.summary.status = "failed";
  failed.summary.reason = "node 1 has not joined within 60 s";
  failed.summary.policy = "bsp";
  REQUIRE(write_summary(folder.path(), failed.summary));
  const Outcome shown = run_report({folder.path().string()});
  CHECK(shown.status == 0);
  CHECK_THAT(shown.out, Contains("node 1 has not joined within 60 s"));
  CHECK_THAT(shown.out, !Contains("BARRIER"));  // a table of nothing
  // Nor is 0 what nobody has counted: of the authority's own counts it is.
  failed.summary.bytes_reduced = 0;
  failed.summary.nodes = failed.summary.threads_per_node = 2;
  REQUIRE(write_summary(folder.path(), failed.summary));
  const std::string name = folder.path().string();
  CHECK_THAT(run_report({name}).out, Contains("\n  lost nodes 0\n") && !Contains(" MB"));
  CHECK(line_of(run_report({name, name}).out, "run", name) ==
        name + " failed bsp 0 - - - 0.000 not evaluated");
  failed.summary.bytes_reduced = 4'000'000;
  REQUIRE(write_summary(folder.path(), failed.summary));
  CHECK_THAT(run_report({name}).out, Contains("\n  reduced 4.0 MB from node to node, lost nodes 0\n"));
  failed.summary.bus_bytes_per_second = 2.5e9;
  failed.summary.algorithms = {"up to 64 floats: ring 0.91 ms, tree 1.1 ms: ring"};
  REQUIRE(write_summary(folder.path(), failed.summary));
  CHECK_THAT(run_report({name}).out,
             Contains("\n  reduced 4.0 MB from node to node, bus 2.5 GB/s, lost nodes 0\n"
                      "  summed, up to 64 floats: ring 0.91 ms, tree 1.1 ms: ring\n"));

  // One that claims to be a success has lost its phases.
  failed.summary.status = "ok";
  failed.summary.reason.clear();
  REQUIRE(write_summary(folder.path(), failed.summary));
  CHECK_THAT(run_report({folder.path().string()}).out, Contains("phases.csv: No such file"));
}
