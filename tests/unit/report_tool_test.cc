// `paceline report`: the numbers in its tables, and its one line for a directory that is no finished run.
#include <catch2/catch.hpp>
#include <filesystem>

#include "common/files/atomic_file.h"
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

TEST_CASE("one_run_shows_how_it_ended_then_a_row_for_each_node_and_its_phases") {
  const TempFolder folder;
  write_run(folder / "a", two_nodes("a"));
  const Outcome r = run_report({(folder / "a").string()});
  REQUIRE(r.status == 0);
  const std::size_t ended = r.out.find(": ok\n"), nodes = r.out.find("\nnodes: seconds of a worker"),
                    phases = r.out.find("\nall nodes (2 workers)");
  CHECK((ended < nodes && nodes < phases && phases != std::string::npos));
  CHECK(line_of(r.out, "nodes: ", "node ") == "node workers compute s barrier s network s other s wall s");
  CHECK(line_of(r.out, "nodes: ", "0 1") == "0 1 0.300 0.100 0.000 0.100 0.500");
  CHECK(line_of(r.out, "nodes: ", "1 1") == "1 1 0.100 0.300 0.000 0.100 0.500");
  // The phases of each node would be ten lines for each.
  CHECK_THAT(r.out, !Contains("\nnode 0\n"));
}

TEST_CASE("of_a_node_s_workers_the_row_has_the_mean") {
  const TempFolder folder;
  FinishedRun run = two_nodes("a");
  run.workers[1].worker = WorkerId(0, 1);  // one node of two threads
  run.workers.push_back({WorkerId(1, 0), run.workers[0].totals});
  write_run(folder / "a", run);
  CHECK(line_of(run_report({(folder / "a").string()}).out, "nodes: ", "0 2") ==
        "0 2 0.200 0.200 0.000 0.100 0.500");
}

TEST_CASE("the_phases_of_each_node_are_shown_where_they_are_asked_for") {
  const TempFolder folder;
  write_run(folder / "a", two_nodes("a"));
  const std::string a = (folder / "a").string();
  const Outcome r = run_report({.runs = {a}, .nodes = true});
  REQUIRE(r.status == 0);
  CHECK(line_of(r.out, "node 0", "COMPUTE_GRADS") ==
        "COMPUTE_GRADS 30.000 30.147 30.147 0.300 60.00 % 10 0.000");
  CHECK(line_of(r.out, "node 1", "BARRIER") == "BARRIER 30.000 30.147 30.147 0.300 60.00 % 10 0.000");
  CHECK(line_of(r.out, "node 1", "unaccounted") == "unaccounted 0.100 20.00 %");
  // Over all: the mean of both, the median among the short, the slow tail among the long ones.
  CHECK(line_of(r.out, "all nodes", "COMPUTE_GRADS") ==
        "COMPUTE_GRADS 20.000 10.093 30.147 0.400 40.00 % 20 0.000");
  CHECK(line_of(r.out, "all nodes", "wall") == "wall, 2 workers 1.000 100.00 %");
  CHECK(line_of(r.out, "node 1", "wall") == "wall 0.500 100.00 %");
  CHECK_THAT(r.out,
             Contains("test accuracy 80.00 %") && Contains("policy ssp, 2 nodes x 1 threads, 20 iterations"));
  // Of several runs there are no such tables.
  CHECK(run_report({.runs = {a, a}, .nodes = true}).status == 2);
  CHECK(run_report({.runs = {a}, .html = a + ".html", .nodes = true}).status == 2);
}

TEST_CASE("what_backup_workers_threw_away_is_named_where_there_is_any") {
  const TempFolder folder;
  FinishedRun run = two_nodes("a");
  write_run(folder / "a", run);
  CHECK_THAT(run_report({(folder / "a").string()}).out, !Contains("dropped"));
  run.summary.dropped = 7;
  write_run(folder / "b", run);
  CHECK_THAT(run_report({(folder / "b").string()}).out, Contains("dropped 7 gradients that came too late"));
}

TEST_CASE("of_local_steps_rounds_and_their_length_are_said_and_how_many_mini_batches_local_time_left") {
  const TempFolder folder;
  FinishedRun run = two_nodes("a");
  const auto reported = [&](const std::string& name) {
    write_run(folder / name, run);
    return run_report({(folder / name).string()}).out;
  };
  CHECK_THAT(reported("none"), Contains("20 iterations in 0.500 s, version") && !Contains("rounds"));
  run.summary.rounds = 4;  // the nodes have computed 20
  CHECK_THAT(reported("whole"), Contains("20 iterations in 0.500 s, in 4 rounds of 5 mini-batches, version"));
  run.summary.iterations = 40;
  CHECK_THAT(reported("timed"),
             Contains("in 4 rounds of 10 mini-batches, of which 20 were computed, version"));
  run.summary.batch_sizes = WorkerBatchSizes{{48, 32}, {32, 32}, {48, 48}};
  CHECK_THAT(reported("balanced"), Contains("in 4 rounds of 10 mini-batches on average, of which 20"));
  run.summary.dropped = 1;  // some of the 20 are of rounds that were not applied
  CHECK_THAT(reported("dropped"), Contains("in 4 rounds of 10 mini-batches on average, version"));
}

TEST_CASE("iterations_that_were_skipped_are_named_in_the_report_and_among_its_caveats") {
  const TempFolder folder;
  FinishedRun run = two_nodes("a");
  write_run(folder / "a", run);
  CHECK_THAT(run_report({(folder / "a").string()}).out, !Contains("skipped"));
  run.summary.iterations = 290;
  run.summary.skipped = 110;
  write_run(folder / "b", run);
  const std::string reported = "110 of 400 iterations were skipped, since a loss or gradient was not finite";
  CHECK_THAT(run_report({(folder / "b").string()}).out, Contains("  " + reported + "\n"));
  CHECK(caveats_of(read_run((folder / "b").string()).value()) == std::vector<std::string>{reported});
}

TEST_CASE("output_that_was_dropped_is_counted_in_the_report_and_among_its_caveats") {
  const TempFolder folder;
  FinishedRun run = two_nodes("a");
  run.summary.lines_dropped = 1;
  write_run(folder / "a", run);
  const std::string reported =
      "1 line of the server's output and log was dropped, since nobody took it in time";
  CHECK_THAT(run_report({(folder / "a").string()}).out, Contains("  " + reported + "\n"));
  CHECK(caveats_of(read_run((folder / "a").string()).value()) == std::vector<std::string>{reported});
}

TEST_CASE("a_resumed_run_says_from_where_and_what_its_numbers_are_of") {
  const TempFolder folder;
  FinishedRun run = two_nodes("a");
  write_run(folder / "a", run);
  CHECK_THAT(run_report({(folder / "a").string()}).out, !Contains("resumed") && !Contains("checkpoints"));
  run.summary.generation = 2;
  run.summary.resumed_from = Version(118);
  run.summary.checkpoints = {7, 1};
  write_run(folder / "b", run);
  CHECK_THAT(
      run_report({(folder / "b").string()}).out,
      Contains("resumed from version 118, generation 2: phases, bytes and reads are of that alone; who "
               "was lost after that version before is in server.log\n") &&
          Contains("7 checkpoints written, 1 failed"));
  // Beside others it is marked, and nothing is held against it; what it trained before is in no phase.
  run.summary.wall_seconds = 9.0;
  write_run(folder / "b", run);
  const std::string a = (folder / "a").string(), b = (folder / "b").string();
  const Outcome r = run_report({a, b});
  CHECK(line_of(r.out, "run", b) == b + " ok, resumed ssp 20 0.200 0.000 0.200 9.000 80.00 %");
  CHECK_THAT(r.out, Contains(b + ": resumed from version 118, so without changes: its phases, ") &&
                        Contains(" of what came after that alone, its total s of all\n") &&
                        !Contains("not training"));
  run.summary.stragglers = {{WorkerId(1, 0), 0.5, 0.9, 0.00042}};
  write_run(folder / "b", run);
  CHECK_THAT(run_report({b}).out,
             Contains("  straggler 1.0: computed 0.420 ms an iteration at last, 0.50 of"));
  run.summary.lost_nodes = 1;
  CHECK(status_of(run.summary) == "ok, lost 1, resumed");
}

TEST_CASE("a_run_that_switched_names_each_policy_from_the_first_on") {
  const TempFolder folder;
  FinishedRun run = two_nodes("a");
  run.summary.policy = "switch";
  run.summary.switches = {{"ssp", Version(0), 0.0, Threshold(1)}, {"ssp", Version(12), 3.5, Threshold(4)}};
  write_run(folder / "a", run);
  const Outcome r = run_report({(folder / "a").string()});
  REQUIRE(r.status == 0);
  CHECK_THAT(r.out, Contains("  policy ssp from version 0 on, 0.000 s, threshold 1\n"
                             "  policy ssp from version 12 on, 3.500 s, threshold 4\n"));
}

TEST_CASE("several_runs_are_compared_with_the_first") {
  const TempFolder folder;
  FinishedRun first = two_nodes("a"), second = two_nodes("b");
  second.summary.policy = "asp";
  second.summary[Phase::kBarrier].total_seconds *= 0.25;
  second.summary[Phase::kPsParam].total_seconds = 0.3;
  second.summary.wall_seconds = 0.4;
  second.summary.test_accuracy = 0.785;
  write_run(folder / "a", first);
  write_run(folder / "b", second);
  const std::string a = (folder / "a").string(), b = (folder / "b").string();
  const Outcome r = run_report({a, b});
  REQUIRE(r.status == 0);
  CHECK(line_of(r.out, "run", a + " ok") == a + " ok ssp 20 0.200 0.000 0.200 0.500 80.00 %");
  CHECK(line_of(r.out, "run", b + " ok") ==
        b + " ok asp 20 0.050 -75.0 % 0.150 new 0.200 0.400 -20.0 % 78.50 % -1.50 points");
  CHECK(line_of(r.out, "phase s", "phase") == "phase s a b");
  CHECK(line_of(r.out, "phase s", "BARRIER") == "BARRIER 0.200 0.050 -75.0 %");
  CHECK(line_of(r.out, "phase s", "PS_PARAM") == "PS_PARAM 0.000 0.150 new");
  CHECK(line_of(r.out, "phase s", "STEP") == "STEP 0.000 0.000");
  CHECK(line_of(r.out, "phase s", "unaccounted") == "unaccounted 0.100 0.100");
}

TEST_CASE("a_change_that_is_smaller_than_what_is_printed_is_none") {
  const TempFolder folder;
  FinishedRun first = two_nodes("a"), second = two_nodes("b");
  first.summary[Phase::kStep].total_seconds = 0.0006;  // of two workers: 0.3 ms
  second.summary[Phase::kStep].total_seconds = 0.0018;
  second.summary[Phase::kBarrier].total_seconds += 0.0004;  // 0.2002 s, printed as 0.200
  second.summary.test_accuracy = 0.80004;
  write_run(folder / "a", first);
  write_run(folder / "b", second);
  const std::string a = (folder / "a").string(), b = (folder / "b").string();
  const Outcome r = run_report({a, b});
  CHECK(line_of(r.out, "phase s", "STEP") == "STEP 0.000 0.001");
  CHECK(line_of(r.out, "phase s", "BARRIER") == "BARRIER 0.200 0.200");
  CHECK(line_of(r.out, "run", b + " ok") == b + " ok ssp 20 0.200 0.001 0.200 0.500 80.00 %");
}

TEST_CASE("on_a_narrow_terminal_no_line_is_wider_and_every_number_is_there") {
  const TempFolder folder;
  std::vector<std::string> runs;
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h"}) {
    FinishedRun run = two_nodes(name);
    if (!runs.empty()) run.summary[Phase::kBarrier].total_seconds *= 0.25;
    runs.push_back((folder / name).string());
    write_run(runs.back(), run);
  }
  const Outcome r = run_report({.runs = runs, .columns = 80});
  REQUIRE(r.status == 0);
  std::istringstream lines(r.out);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 80);
  CHECK_THAT(r.out, Contains(runs[1] + ": ok, ssp, 20 iterations\n"));
  CHECK(line_of(r.out, runs[1] + ": ok", "0.") == "0.050 0.000 0.200 0.500 80.00 %");
  CHECK(line_of(r.out, runs[1] + ": ok", "-") == "-75.0 %");
  CHECK(line_of(r.out, "phase s", "BARRIER") == "BARRIER 0.200 0.050 -75.0 % 0.050 -75.0 % 0.050 -75.0 %");
  for (const std::string& run : runs) {
    CHECK_THAT(r.out, Contains(" " + std::filesystem::path(run).filename().string()));
  }
  // Where there is room it is the line for each run.
  CHECK(run_report({.runs = runs, .columns = 400}).out.find(runs[1] + ": ok") == std::string::npos);
}

TEST_CASE("runs_of_other_work_are_not_held_against_the_first") {
  const TempFolder folder;
  FinishedRun first = two_nodes("a"), second = two_nodes("b");
  second.summary[Phase::kBarrier].total_seconds *= 0.25;
  write_run(folder / "a", first);
  const std::string a = (folder / "a").string(), b = (folder / "b").string();
  const auto run_b = [&](const std::string& config) {
    write_run(b, second);
    REQUIRE(write_file_atomically(folder / "b/config.yaml", config));
    return run_report({a, b}).out;
  };
  const auto a_is = [&](const std::string& config) {
    REQUIRE(write_file_atomically(folder / "a/config.yaml", config));
  };
  a_is(
      "cluster: {threads_per_node: 1}\ntrain: {total_iterations: 1600, batch_size: 32}\n"
      "emulate: {base_step: 10ms}\n");
  const std::string other = run_b("train: {total_iterations: 320, batch_size: 32}\n");
  CHECK(line_of(other, "run", b) == b + " ok ssp 20 0.050 0.000 0.200 0.500 80.00 %");
  CHECK_THAT(other, Contains(b + ": other work than the first run's, so without changes: "
                                 "train.total_iterations is 320, there 1600\n"));
  CHECK_THAT(run_b("train: {total_iterations: 1600, batch_size: 64}\n"),
             Contains("train.batch_size is 64, there 32"));
  CHECK_THAT(run_b("cluster: {threads_per_node: 4}\ntrain: {total_iterations: 1600, batch_size: 32}\n"),
             Contains("cluster.threads_per_node is 4, there 1"));
  CHECK_THAT(run_b("train: {total_iterations: 1600, batch_size: 32}\nemulate: {base_step: 20ms}\n"),
             Contains("emulate.base_step is "));
  // A policy, a seed and a threshold are what one compares.
  const std::string same =
      run_b("run: {seed: 7}\nsync: {policy: bsp}\ntrain: {total_iterations: 1600, batch_size: 32}\n");
  CHECK(line_of(same, "run", b) == b + " ok ssp 20 0.050 -75.0 % 0.000 0.200 0.500 80.00 %");

  // In JSON, too.
  run_b("train: {total_iterations: 320, batch_size: 32}\n");
  const std::string json = run_report({.runs = {a, b}, .format = ReportFormat::kJson}).out;
  CHECK_THAT(json, Contains("\"comparable\": false") && Contains("\"train.total_iterations\""));
}

TEST_CASE("without_configurations_the_summaries_tell_other_work") {
  const TempFolder folder;
  FinishedRun first = two_nodes("a"), second = two_nodes("b");
  second.summary.iterations = 100;
  write_run(folder / "a", first);
  write_run(folder / "b", second);
  const Outcome r = run_report({(folder / "a").string(), (folder / "b").string()});
  CHECK_THAT(r.out, Contains("without changes: iterations is 100, there 20\n"));
}

TEST_CASE("a_phase_column_is_headed_by_what_tells_the_runs_apart") {
  const TempFolder folder;
  write_run(folder / "a/run", two_nodes("a"));
  write_run(folder / "b/run", two_nodes("b"));
  const std::string a = (folder / "a/run").string(), b = (folder / "b/run").string();
  CHECK(line_of(run_report({a, b}).out, "phase s", "phase") == "phase s " + a + " " + b);
}

TEST_CASE("a_run_that_lost_a_node_is_shown_by_the_workers_that_reported") {
  const TempFolder folder;
  FinishedRun lost = two_nodes("lost");
  lost.workers.pop_back();  // node 1 never reported: the sums are those of node 0 alone
  lost.summary.lost_nodes = 1;
  lost.summary.lost = {"node 1: silent for 10.2 s"};
  set_phases(lost.summary, lost.workers[0].totals);
  write_run(folder / "whole", two_nodes("whole"));
  write_run(folder / "lost", lost);
  const std::string whole = (folder / "whole").string(), name = (folder / "lost").string();
  const Outcome r = run_report({whole, name});
  REQUIRE(r.status == 0);
  CHECK(line_of(r.out, "run", name) == name + " ok, lost 1 ssp 20 0.100 0.000 0.300 0.500 80.00 %");
  CHECK(line_of(r.out, "phase s", "COMPUTE_GRADS") == "COMPUTE_GRADS 0.200 0.300");
  CHECK_THAT(r.out,
             Contains(name + ": 1 of 2 nodes lost, so without changes; seconds are of the 1 worker that "
                             "reported\n"));
  CHECK_THAT(run_report({name}).out,
             Contains("  lost node 1: silent for 10.2 s\n") && !Contains("done by nobody"));
  lost.summary.iterations_lost = 2;
  write_run(folder / "begun", lost);
  CHECK_THAT(run_report({(folder / "begun").string()}).out,
             Contains("  iterations that the lost had begun, and that were not applied: 2\n"));
  lost.summary.iterations_undone = 3;
  write_run(folder / "late", lost);
  CHECK_THAT(run_report({(folder / "late").string()}).out,
             Contains("  3 iterations that the lost left were done by nobody (begun by them were 2)\n") &&
                 !Contains("not applied"));
  lost.summary.lost_nodes = 0;
  lost.summary.lost.clear();
  write_run(folder / "early", lost);
  std::filesystem::remove(folder / "early" / "phases.csv");
  CHECK_THAT(run_report({(folder / "early").string()}).out,
             Contains("  3 iterations that nodes which finished early left were done by nobody (begun by "
                      "them were 2)\n") &&
                 Contains("  no phases: nodes report them at a run's end, and all finished early\n") &&
                 !Contains("the lost") && !Contains("cannot read"));
  // Nothing is compared with it either.
  CHECK(line_of(run_report({name, whole}).out, "run", whole) ==
        whole + " ok ssp 20 0.200 0.000 0.200 0.500 80.00 %");
}
