// `paceline report --format`: the same numbers as CSV, JSON, Markdown, and in colour.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "tests/unit/report_fixture.h"
#include "tests/unit/temp_folder.h"
#include "tools/text_table.h"

using namespace paceline;
using Catch::Contains;
using testing::Outcome;
using testing::run_report;
using testing::TempFolder;
using testing::two_nodes;
using testing::write_run;

namespace {

// Two runs, the second with a quarter of the waiting.
struct TwoRuns {
  TwoRuns() {
    FinishedRun second = two_nodes("b");
    second.summary[Phase::kBarrier].total_seconds *= 0.25;
    second.summary.rounds = 4;
    second.summary.bytes_pushed = 1000;
    write_run(folder / "a", two_nodes("a"));
    write_run(folder / "b, \"quoted\"", second);
  }
  std::string text(ReportFormat format, bool coloured = false) const {
    const Outcome r = run_report({.runs = {a, b}, .format = format, .coloured = coloured});
    REQUIRE(r.status == 0);
    return r.out;
  }
  std::string one(ReportFormat format) const {
    return run_report({.runs = {a}, .format = format, .nodes = true}).out;
  }

  const TempFolder folder;
  const std::string a = (folder / "a").string(), b = (folder / "b, \"quoted\"").string();
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream all(text);
  for (std::string line; std::getline(all, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("one_run_as_csv_is_a_row_for_each_phase_of_each_node_and_of_all") {
  const TwoRuns runs;
  const std::vector<std::string> lines = lines_of(runs.one(ReportFormat::kCsv));
  REQUIRE(lines.size() == 1 + 3 * (kPhaseCount + 1));
  CHECK(lines[0] == "run,node,phase,count,total_seconds,mean_ms,p50_ms,p95_ms,share,hidden_seconds");
  CHECK(lines[2] == runs.a + ",0,COMPUTE_GRADS,10,0.300000000,30,30.14656,30.14656,0.6,0.000000000");
  CHECK(lines[10] == runs.a + ",0,unaccounted,,0.100000000,,,,0.2,");
  CHECK_THAT(lines[22], Contains(",all,COMPUTE_GRADS,20,0.400000000,20,"));
}

TEST_CASE("several_runs_as_csv_are_a_row_each_and_a_name_may_have_commas_and_quotes") {
  const TwoRuns runs;
  const std::vector<std::string> lines = lines_of(runs.text(ReportFormat::kCsv));
  REQUIRE(lines.size() == 3);
  CHECK_THAT(lines[0],
             Contains("run,status,simulated,policy,") && Contains(",BATCH_seconds,") &&
                 Catch::EndsWith(",unaccounted_seconds,rounds,bytes_pushed,bytes_pulled,bytes_shared,"
                                 "bytes_reduced,bubble_share"));
  CHECK_THAT(lines[1], Catch::StartsWith(runs.a + ",ok,false,ssp,2,1,2,20,0,3,0.5,0.2,0,0.2,0.8,,0,0.2,"));
  std::string quoted = runs.b;
  for (std::size_t at = 0; (at = quoted.find('"', at)) != std::string::npos; at += 2)
    quoted.insert(at, 1, '"');
  CHECK_THAT(lines[2], Catch::StartsWith("\"" + quoted + "\",ok,") && Contains(",0.05,") &&
                           Catch::Matches(".*,4,1000,[0-9]+,[0-9]+,,"));
}

TEST_CASE("json_has_the_summary_as_it_is_and_all_that_the_tables_say") {
  const TwoRuns runs;
  const auto json = nlohmann::json::parse(runs.text(ReportFormat::kJson)).at("runs");
  REQUIRE(json.size() == 2);
  CHECK(json[0].at("run") == runs.a);
  CHECK(json[0].at("comparable") == true);
  CHECK(json[1].at("differs_in").empty());
  CHECK(json[0].at("summary").at("final_threshold") == 3);
  CHECK(json[1].at("seconds_of_a_worker").at("barrier") == 0.05);
  CHECK(json[0].at("nodes").size() == 2);
  CHECK(json[0].at("nodes")[1].at("phases").at("BARRIER").at("mean_ms") == 30.0);
  CHECK(json[0].at("all").at("workers") == 2);
  CHECK(json[0].at("missing").empty());
  // One run alone is the same.
  CHECK(nlohmann::json::parse(runs.one(ReportFormat::kJson)).at("runs")[0] == json[0]);
}

TEST_CASE("an_empty_directory_in_json_is_unfinished_and_lacks_its_files") {
  const TempFolder folder;
  const std::string name = folder.path().string();
  const Outcome r = run_report({.runs = {name}, .format = ReportFormat::kJson});
  CHECK(r.status == 0);
  const auto run = nlohmann::json::parse(r.out).at("runs")[0];
  CHECK(run.at("finished") == false);
  CHECK(run.at("status") == "unfinished");
  CHECK(run.at("summary").is_null());
  CHECK(run.at("missing").size() == 4);
  for (const char* key : {"policy", "version", "wall_seconds", "test_accuracy", "workers_reported", "all"}) {
    CHECK(run.at(key).is_null());
  }
  for (const auto& seconds : run.at("seconds_of_a_worker").at("phases")) CHECK(seconds.is_null());
}

TEST_CASE("what_an_empty_directory_does_not_say_is_an_empty_cell_in_csv") {
  const TwoRuns runs;
  std::filesystem::create_directories(runs.folder / "empty");
  const std::string empty = (runs.folder / "empty").string();
  const Outcome r = run_report({.runs = {runs.a, empty}, .format = ReportFormat::kCsv});
  CHECK(r.status == 0);
  const std::vector<std::string> lines = lines_of(r.out);
  REQUIRE(lines.size() == 3);
  const auto others = std::count(lines[0].begin(), lines[0].end(), ',') - 1;  // but for run and status
  CHECK(lines[2] == empty + ",unfinished" + std::string(static_cast<std::size_t>(others), ','));
  // What is wrong is said beside it, of several runs and of one.
  for (const Outcome& reported : {r, run_report({.runs = {empty}, .format = ReportFormat::kCsv})}) {
    CHECK_THAT(reported.err,
               Contains("paceline report: " + empty + ": unfinished, so without changes\n") &&
                   Contains("paceline report: " + empty + ": no summary.json: the run is unfinished") &&
                   Contains("phases.csv: No such file"));
    CHECK_THAT(reported.err, !Contains(runs.a));
  }
  CHECK(run_report({.runs = {empty}, .format = ReportFormat::kJson}).err.empty());
}

TEST_CASE("markdown_has_the_cells_of_the_table_between_bars") {
  const TwoRuns runs;
  const std::string one = runs.one(ReportFormat::kMarkdown);
  CHECK_THAT(
      one,
      Contains("**node 0**\n\n| phase | mean ms | p50 ms | p95 ms | total s | share | count | hidden s |\n"
               "|---|---:|---:|---:|---:|---:|---:|---:|\n") &&
          Contains("| COMPUTE_GRADS | 30.000 | 30.147 | 30.147 | 0.300 | 60.00 % | 10 | 0.000 |\n") &&
          Contains("\n- test accuracy 80.00 %\n"));
  for (const std::string& line : lines_of(runs.text(ReportFormat::kMarkdown))) {
    if (line.starts_with("|")) CHECK(line.ends_with("|"));
  }
}

TEST_CASE("colour_changes_no_character_and_is_there_only_where_it_is_wanted") {
  const TwoRuns runs;
  const std::string plain = runs.text(ReportFormat::kTable);
  const std::string coloured = runs.text(ReportFormat::kTable, true);
  CHECK(plain.find('\033') == std::string::npos);
  CHECK_THAT(coloured, Contains("\033[32m-75.0 %\033[0m"));
  CHECK(std::regex_replace(coloured, std::regex("\033\\[[0-9]*m"), "") == plain);
  CHECK(runs.text(ReportFormat::kCsv, true).find('\033') == std::string::npos);
}

TEST_CASE("columns_are_as_wide_as_what_is_in_them_and_empty_ones_are_left_out") {
  const TextTable table{.columns = {{"name", Align::kLeft}, {""}, {"s"}},
                        .rows = {{{"\u00e9t\u00e9"}, {}, {"1.25"}}, {{"longer"}, {}, {"12.25"}}}};
  CHECK(rendered(table, TextStyle::kPlain) == "name        s\n\u00e9t\u00e9      1.25\nlonger  12.25\n");
  CHECK(rendered(table, TextStyle::kMarkdown) ==
        "| name | s |\n|---|---:|\n| \u00e9t\u00e9 | 1.25 |\n| longer | 12.25 |\n");
}

TEST_CASE("a_bar_or_a_line_end_in_a_cell_stays_in_its_cell") {
  const TextTable table{.columns = {{"run", Align::kLeft}}, .rows = {{{"a|b\nc"}}}};
  CHECK(rendered(table, TextStyle::kMarkdown) == "| run |\n|---|\n| a\\|b c |\n");
}

TEST_CASE("a_format_goes_neither_with_a_comparison_of_policies_nor_with_a_page") {
  const TwoRuns runs;
  for (const bool compare : {true, false}) {
    ReportOptions options{.runs = {runs.a}, .compare = compare, .format = ReportFormat::kCsv};
    if (!compare) options.html = "page.html";
    const Outcome r = run_report(options);
    CHECK(r.status == 2);
    CHECK_THAT(r.err, Contains("--format"));
  }
}
