// `paceline report --html`: what becomes of run directories on their way into the page. How the page looks is
// tested in a browser (tests/process/page/).
#include "common/page/report_page.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/files/atomic_file.h"
#include "common/page/page_data.h"
#include "common/report/curve.h"
#include "common/report/phases_csv.h"
#include "common/report/progress.h"
#include "common/report/run_summary.h"
#include "common/report/staleness.h"
#include "common/timing/histogram.h"
#include "tests/unit/temp_folder.h"
#include "tools/report.h"

using namespace paceline;
using Catch::Contains;
using nlohmann::json;
using testing::TempFolder;

namespace {

// One worker for each node: a computation of 30 ms and a wall of 50.
void write_page_run(const std::filesystem::path& folder, std::uint32_t nodes) {
  std::filesystem::create_directories(folder);
  RunSummary summary;
  summary.policy = "ssp";
  summary.nodes = nodes;
  summary.threads_per_node = 1;
  summary.wall_seconds = 0.1 + 0.2;
  summary.simulated_seed = 18'446'744'073'709'551'615u;
  std::vector<WorkerPhases> workers;
  for (std::uint32_t node = 0; node < nodes; ++node) {
    PhaseTotals totals;
    totals[Phase::kComputeGrads] = {1, 30'000'000, 0, {{histogram_bucket(30'000'000), 1}}};
    totals.wall_ns = 50'000'000;
    workers.push_back({WorkerId(node, 0), totals});
  }
  REQUIRE(write_summary(folder, summary));
  REQUIRE(write_phases(folder, workers));
}

// The data of one run.
json run_of(const std::filesystem::path& folder) {
  const std::string name = folder.string();
  const Result<PageData> data = page_data(std::vector{name});
  REQUIRE(data.is_ok());
  return json::parse(data->json).at("runs").at(0);
}

}  // namespace

TEST_CASE("the_summary_on_the_page_is_the_file_and_no_integer_of_it_is_rounded") {
  const TempFolder folder;
  write_page_run(folder.path(), 1);
  const json summary = run_of(folder.path()).at("summary");
  json file = json::parse(*read_file(folder / "summary.json", 1 << 20));
  CHECK(summary.at("seed") == "18446744073709551615");  // 2^64 - 1 is no double
  file["seed"] = "18446744073709551615";
  CHECK(summary == file);
  CHECK(summary.at("wall_seconds").dump() == "0.30000000000000004");
}

TEST_CASE("of_too_many_workers_the_sums_of_their_nodes_have_all") {
  const TempFolder folder;
  write_page_run(folder.path(), 1200);
  const json phases = run_of(folder.path()).at("phases");
  CHECK(phases.at("of") == 1200);
  CHECK(phases.at("of_nodes") == 1200);
  CHECK(phases.at("workers").size() == 1000);
  CHECK(phases.at("workers").at(999).at("worker") == "999.0");
  CHECK(phases.at("nodes").at(0).at("phases").at(1).at("seconds") == 0.03);
  CHECK(phases.at("nodes").at(0).at("unaccounted") == 0.02);
}

TEST_CASE("of_local_steps_the_page_has_what_the_report_says_of_rounds_and_of_each_nodes_samples") {
  const TempFolder folder;
  write_page_run(folder.path(), 2);
  CHECK((!run_of(folder.path()).contains("rounds") && !run_of(folder.path()).contains("samples")));
  RunSummary summary = *read_summary(folder.path());
  summary.rounds = 4;
  summary.iterations = 40;
  summary[Phase::kComputeGrads].count = 36;
  REQUIRE(write_summary(folder.path(), summary));
  CHECK(run_of(folder.path()).at("rounds") ==
        json::parse(R"({"mini_batches": 10, "differ": false, "computed": 36})"));
  summary.batch_sizes = WorkerBatchSizes{{224, 96}, {160, 96}, {240, 160}};
  REQUIRE(write_summary(folder.path(), summary));
  CHECK(run_of(folder.path()).at("rounds").at("differ") == true);
  CHECK(run_of(folder.path()).at("samples") ==
        json::parse(R"({"of": 2, "nodes": [[0, "224", "160 to 240"], [1, "96", "96 to 160"]]})"));
}

TEST_CASE("how_training_goes_is_drawn_of_windows_where_there_are_any") {
  const TempFolder folder;
  const CurveRow window = {1.0, Version(10), Threshold(3), {}, 2.0, 0.1, {}, {}, 40};
  const CurveRow evaluated = {1.0, Version(10), Threshold(3), {}, 2.5, 0.2, 0.5, 1.0, 40};
  REQUIRE(write_curve(folder.path(), std::vector{window, evaluated}));
  CHECK(run_of(folder.path()).at("curve").at("train_loss").at("points") == json::parse("[[1.0,10,40,2.0]]"));
  CHECK(run_of(folder.path()).at("curve").at("train_accuracy").at("of") == 1);
  REQUIRE(write_curve(folder.path(), std::vector{evaluated}));
  CHECK(run_of(folder.path()).at("curve").at("train_loss").at("points") == json::parse("[[1.0,10,40,2.5]]"));
}

TEST_CASE("a_curve_goes_in_order_of_time_and_a_threshold_says_only_where_it_changed") {
  const TempFolder folder;
  const std::vector<CurveRow> rows = {{1.0, Version(10), Threshold(3), {}, 2.0, {}, {}, {}, 40, 0.25},
                                      {3.0, Version(30), Threshold(3), 5.5, 1.5, {}, {}},
                                      {2.0, Version(20), Threshold(3), {}, {}, {}, 0.5},
                                      {4.0, Version(40), Threshold::infinite(), {}, {}, {}, {}},
                                      {5.0, Version(50), Threshold::infinite(), {}, {}, {}, {}}};
  REQUIRE(write_curve(folder.path(), rows));
  const json curve = run_of(folder.path()).at("curve");
  CHECK(curve.at("train_loss").at("points") == json::parse("[[1.0,10,40,2.0],[3.0,30,null,1.5]]"));
  CHECK(curve.at("test_accuracy").at("points") == json::parse("[[2.0,20,null,0.5]]"));
  CHECK(curve.at("lpr").at("of") == 1);
  CHECK(curve.at("learning_rate").at("points") == json::parse("[[1.0,10,40,0.25]]"));
  CHECK(curve.at("threshold").at("points") ==
        json::parse("[[1.0,10,40,3.0],[4.0,40,null,null],[5.0,50,null,null]]"));

  // What is in force before the first row is what the policy begins with.
  REQUIRE(write_file_atomically(folder / "config.yaml", "sync: {policy: ssp, threshold: 3}\n"));
  CHECK(run_of(folder.path()).at("curve").at("threshold").at("points") ==
        json::parse("[[0.0,0,0,3.0],[4.0,40,null,null],[5.0,50,null,null]]"));
  std::filesystem::remove(folder / "config.yaml");

  std::ofstream(folder / "curve.csv", std::ios::app) << "9.25,1";  // by a run that was killed
  const json killed = run_of(folder.path());
  CHECK(killed.at("curve") == curve);
  CHECK_THAT(killed.at("missing").dump(), Contains("curve.csv: the last line is cut, and left out"));
}

TEST_CASE("staleness_is_summed_over_the_workers") {
  const TempFolder folder;
  StalenessCounts twice, once;
  twice.add(3, 2);
  once.add(3);
  once.add(0);
  REQUIRE(write_staleness(folder.path(), std::vector<WorkerStaleness>{{WorkerId(0, 0), twice, once},
                                                                      {WorkerId(1, 0), once, once}}));
  const json staleness = run_of(folder.path()).at("staleness");
  CHECK(staleness.at("clocks") == json::parse("[[0,1],[3,3]]"));
  CHECK(staleness.at("gradients") == json::parse("[[0,2],[3,2]]"));
}

TEST_CASE("a_thinned_curve_keeps_its_ends_and_every_peak") {
  std::vector<CurvePoint> points;
  for (int i = 0; i < 10'000; ++i) points.push_back({0.1 * i, i, std::sin(0.001 * i)});
  points[4321].value = 7.0;
  points[8765].value = -7.0;
  const std::vector<CurvePoint> kept = thinned(points, 100);
  CHECK(kept.size() <= 100);
  CHECK(kept.size() > 50);
  CHECK(kept.front() == points.front());
  CHECK(kept.back() == points.back());
  CHECK(std::count(kept.begin(), kept.end(), points[4321]) == 1);
  CHECK(std::count(kept.begin(), kept.end(), points[8765]) == 1);
  CHECK(std::is_sorted(kept.begin(), kept.end(),
                       [](const CurvePoint& a, const CurvePoint& b) { return a.version < b.version; }));
  CHECK(thinned(kept, 100) == kept);  // few enough already
}

TEST_CASE("of_several_runs_the_page_says_which_did_other_work_than_the_first") {
  const TempFolder folder;
  for (const char* name : {"a", "b", "c"}) write_page_run(folder / name, 1);
  for (const char* name : {"a", "b"})
    REQUIRE(write_file_atomically(folder / name / "config.yaml", "train: {batch_size: 32}\n"));
  REQUIRE(write_file_atomically(folder / "c/config.yaml", "train: {batch_size: 64}\n"));
  std::vector<std::string> folders;
  for (const char* name : {"a", "b", "c"}) folders.push_back((folder / name).string());
  const Result<PageData> data = page_data(folders);
  REQUIRE(data.is_ok());
  const json runs = json::parse(data->json).at("runs");
  CHECK_FALSE((runs.at(0).contains("differs") || runs.at(1).contains("differs")));
  CHECK(runs.at(2).at("differs") == "train.batch_size is 64, there 32");
}

TEST_CASE("what_a_run_directory_lacks_is_named_and_the_rest_is_there") {
  const TempFolder folder;
  write_page_run(folder / "old", 1);
  REQUIRE(write_file_atomically(folder / "old/summary.json", R"({"status": "ok", "nodes": 3})"));
  REQUIRE(write_file_atomically(folder / "old/config.yaml", "no: such key\n"));
  std::filesystem::create_directories(folder / "empty");
  const std::vector<std::string> folders = {(folder / "old").string(), (folder / "empty/").string()};
  const Result<PageData> data = page_data(folders);
  REQUIRE(data.is_ok());
  const json runs = json::parse(data->json).at("runs");
  CHECK(runs.at(0).at("summary").at("nodes") == 3);
  CHECK(runs.at(0).at("phases").at("of") == 1);
  CHECK(runs.at(1).size() == 3);  // its name, what is missing, and that it is unfinished
  CHECK(runs.at(1).at("known") == json{{"status", "unfinished"}});
  std::string missing;
  for (const std::string& line : data->missing) missing += line + "\n";
  CHECK_THAT(missing,
             Contains("old: summary.json is of another version: it lacks policy, threads_per_node, ") &&
                 Contains("old: cannot read curve.csv: No such file") &&
                 Contains("old: config.yaml is cut, or of another version: unknown key no\n") &&
                 Contains("empty/: no config.yaml\n") &&
                 Contains("empty/: no summary.json: the run is unfinished"));
}

TEST_CASE("a_killed_run_is_known_as_far_as_it_came_and_its_workers_by_their_names") {
  const TempFolder folder;
  REQUIRE(
      write_file_atomically(folder / "config.yaml",
                            "cluster: {nodes: 2, threads_per_node: 2, colour: red}\nsync: {policy: ssp}\n"));
  CurveRow row{2.5, Version(20), Threshold(3)};
  row.test_accuracy = 0.5;
  REQUIRE(write_curve(folder.path(), std::vector{row}));
  const std::vector<std::optional<std::int64_t>> gaps = {0, 1, 2, std::nullopt};
  const std::vector<ProgressRow> progress = {{0.0, {}, gaps}, {0.5, {100, 200, 0}, gaps}};
  REQUIRE(write_progress(folder.path(), progress));
  const json run = run_of(folder.path());
  CHECK(run.at("known") == json{{"status", "unfinished"},
                                {"policy", "ssp"},
                                {"nodes", 2},
                                {"threads_per_node", 2},
                                {"workers", 4},
                                {"seconds", 2.5},
                                {"version", 20},
                                {"threshold", 3},
                                {"test_accuracy", 0.5}});
  CHECK(run.at("progress").at("workers") == json{"0.0", "0.1", "1.0", "1.1"});
  CHECK(run.contains("settings"));
  std::filesystem::remove(folder / "config.yaml");  // then nobody knows how many threads a node has
  CHECK(run_of(folder.path()).at("progress").at("workers") == json{"rank 0", "rank 1", "rank 2", "rank 3"});
  REQUIRE(write_file_atomically(folder / "summary.json", R"({"status": "ok", "threads_per_node": 2})"));
  const json ended = run_of(folder.path());
  CHECK(ended.at("progress").at("workers") == json{"0.0", "0.1", "1.0", "1.1"});
  CHECK_FALSE(ended.contains("known"));
}

TEST_CASE("a_summary_that_is_no_object_or_nested_without_an_end_is_refused_or_cut") {
  const TempFolder folder;
  REQUIRE(write_file_atomically(folder / "summary.json", std::string(500'000, '[')));
  CHECK_FALSE(run_of(folder.path()).contains("summary"));
  REQUIRE(write_file_atomically(folder / "summary.json", "[1, 2]"));
  CHECK_FALSE(run_of(folder.path()).contains("summary"));
  REQUIRE(write_file_atomically(folder / "summary.json", "{\"a\": " + std::string(200'000, '[') +
                                                             std::string(200'000, ']') + ", \"b\": 1}"));
  CHECK(run_of(folder.path()).at("summary").at("b") == 1);
}

TEST_CASE("no_text_of_a_run_can_end_the_element_that_it_stands_in") {
  const TempFolder folder;
  const std::string evil = "</script><!-- &amp; \xe2\x80\xa8 \xff";
  REQUIRE(write_file_atomically(folder / "config.yaml", evil));
  const std::string name = folder.path().string();
  const Result<PageData> data = page_data(std::vector{name});
  REQUIRE(data.is_ok());
  CHECK(data->json.find_first_of("<>&") == std::string::npos);
  CHECK(std::all_of(data->json.begin(), data->json.end(), [](char c) { return c >= ' ' && c <= '~'; }));
  CHECK(json::parse(data->json).at("runs").at(0).at("config") == "</script><!-- &amp; \u2028 \ufffd");
}

TEST_CASE("a_page_is_written_whole_and_what_is_wrong_is_one_line_and_status_2") {
  const TempFolder folder;
  write_page_run(folder / "run", 2);
  const std::string run = (folder / "run").string(), page = (folder / "page.html").string();
  std::ostringstream out, err;
  ReportOptions options{.runs = {run}, .html = page};
  CHECK(report(options, out, err) == 0);
  CHECK_THAT(out.str(),
             Contains(page + ": 1 run, ") && Contains("  " + run + ": cannot read curve.csv: No such file"));
  const std::string text = *read_file(page, 1 << 24);
  CHECK(text.size() > page_template().size());
  CHECK(text.substr(0, 100) == page_template().substr(0, 100));

  const auto refused = [&](ReportOptions wrong, const std::string& why) {
    std::ostringstream nothing, line;
    CHECK(report(wrong, nothing, line) == 2);
    CHECK(nothing.str().empty());
    CHECK_THAT(line.str(), Contains(why));
  };
  refused({.runs = {run, (folder / "none").string()}, .html = page}, "none: no such run directory");
  refused({.runs = {run}, .html = (folder / "no/page.html").string()}, "no");
  refused({.runs = {run}, .compare = true, .html = page}, "--html and --compare");
}
