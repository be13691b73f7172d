// A run directory of another version: what is there is shown, and what is not is named.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/files/atomic_file.h"
#include "common/report/curve.h"
#include "tests/unit/report_fixture.h"
#include "tests/unit/temp_folder.h"

using namespace paceline;
using Catch::Contains;
using testing::kMs;
using testing::Outcome;
using testing::run_report;
using testing::TempFolder;
using testing::two_nodes;
using testing::write_run;

namespace {

std::string content_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

void write_older(const std::filesystem::path& file, const std::string& text) {
  REQUIRE(write_file_atomically(file, text));
}

// The run, and the same with its files as an older version would have written them.
struct OlderRun {
  OlderRun() { write_run(folder / "run", two_nodes("run")); }

  template <typename Change>
  void change_summary(const Change& change) const {
    auto json = nlohmann::ordered_json::parse(content_of(folder / "run/summary.json"));
    change(json);
    write_older(folder / "run/summary.json", json.dump());
  }
  std::string report() const {
    const Outcome r = run_report({run});
    CHECK(r.status == 0);
    return r.out;
  }
  nlohmann::json json() const {
    return nlohmann::json::parse(run_report({.runs = {run}, .format = ReportFormat::kJson}).out)["runs"][0];
  }

  const TempFolder folder;
  const std::string run = (folder / "run").string();
};

}  // namespace

TEST_CASE("a_summary_that_lacks_keys_is_shown_with_the_others_and_they_are_named") {
  const OlderRun older;
  older.change_summary([](auto& json) {
    json.erase("iterations");
    json.erase("parameter_reads");
    json["test_loss"] = "low";
  });
  CHECK_THAT(older.report(),
             Contains(older.run + ": ok\n") && Contains("policy ssp, 2 nodes x 1 threads") &&
                 Contains("test accuracy 80.00 %") &&
                 Contains("summary.json is of another version: no keys iterations, test_loss, "
                          "parameter_reads;"));
  // Nothing is made up for programs, and the rest of the summary is there.
  const nlohmann::json json = older.json();
  CHECK(json["finished"] == true);
  CHECK_FALSE(json["summary"].contains("iterations"));
  CHECK(json["summary"]["wall_seconds"] == 0.5);
  const std::string two = run_report({older.run, older.run}).out;
  CHECK_THAT(two, Contains(" ok") && Contains(" ssp "));
}

TEST_CASE("what_the_summary_lacks_the_other_files_say") {
  const OlderRun older;
  older.change_summary([](auto& json) {
    for (const char* key :
         {"policy", "nodes", "threads_per_node", "wall_seconds", "final_version", "phases"}) {
      json.erase(key);
    }
  });
  write_older(older.folder / "run/config.yaml",
              "cluster: {nodes: 2, threads_per_node: 1}\nsync: {policy: dtssp}\n");
  const std::vector<CurveRow> rows = {{3.5, Version(30), Threshold(4), 5.5, 1.5, {}, {}}};
  REQUIRE(write_curve(older.folder / "run", rows));
  const std::string reported = older.report();
  CHECK_THAT(reported, Contains("policy dtssp, 2 nodes x 1 threads") && Contains("in 3.500 s, version 30"));
  CHECK_THAT(reported, Contains("test accuracy 80.00 %"));  // the final model's
  CHECK(older.json()["seconds_of_a_worker"]["barrier"] == 0.2);
}

TEST_CASE("what_nobody_says_is_left_out_rather_than_said_to_be_nothing") {
  const OlderRun older;
  older.change_summary([](auto& json) {
    for (const char* key : {"nodes", "bytes_pushed", "bytes_pulled", "pulls", "lost_nodes", "wall_seconds"}) {
      json.erase(key);
    }
  });
  const std::string reported = older.report();
  CHECK_THAT(reported, Contains("  policy ssp, ") && !Contains(" nodes x ") && !Contains("0.0 MB"));
  CHECK_THAT(reported, !Contains("lost nodes") && !Contains("0.000 s") && Contains("  overruns 0\n"));
  CHECK(older.json()["policy"] == "ssp");
}

TEST_CASE("a_summary_without_a_status_or_that_is_none_is_still_unreadable") {
  const OlderRun older;
  older.change_summary([](auto& json) { json.erase("status"); });
  CHECK_THAT(older.report(), Contains(": unreadable\n") && Contains("'status' not found"));
}

TEST_CASE("unknown_keys_of_a_configuration_are_named_and_the_others_count") {
  const OlderRun older;
  std::filesystem::remove(older.folder / "run/summary.json");
  write_older(
      older.folder / "run/config.yaml",
      "cluster: {nodes: 3, threads_per_node: 1, colour: red}\nsync: {policy: dtssp}\nweather: {rain: 1}\n");
  CHECK_THAT(older.report(), Contains("policy dtssp, 3 nodes x 1 threads") &&
                                 Contains("config.yaml is cut, or of another version: unknown keys "
                                          "cluster.colour, weather"));
}

TEST_CASE("what_a_cut_configuration_does_not_say_is_not_made_up") {
  const OlderRun older;
  std::filesystem::remove(older.folder / "run/summary.json");
  write_older(older.folder / "run/config.yaml", "run: {seed: 3}\ncluster:\n  nodes: 3\n  t");
  CHECK_THAT(older.report(), !Contains("policy") && !Contains(" nodes x "));
  CHECK_THAT(older.report(), Contains("config.yaml"));
  write_older(older.folder / "run/config.yaml", "run: {seed: 3}\ncluster: {nodes: 3, t: }\n");
  const std::string reported = older.report();
  CHECK_THAT(reported, !Contains("policy") && !Contains(" nodes x "));
  CHECK_THAT(reported, Contains("config.yaml is cut, or of another version: unknown key cluster.t\n") &&
                           Contains("config.yaml is cut, or of another version: no keys run.name, ") &&
                           Contains(" more\n"));
  CHECK(older.json()["policy"].is_null());
  // Nor the rest where the policy is known.
  write_older(older.folder / "run/config.yaml", "cluster: {nodes: 3}\nsync: {policy: dtssp, threshold: 3}\n");
  CHECK_THAT(older.report(), Contains("  policy dtssp\n") && !Contains(" nodes x "));
  CHECK(older.json()["policy"] == "dtssp");
  // Nor does it differ in that from another run.
  write_run(older.folder / "other", two_nodes("other"));
  write_older(older.folder / "other/config.yaml",
              "cluster: {nodes: 3}\ntrain: {batch_size: 16}\nsync: {policy: bsp}\n");
  const auto both = nlohmann::json::parse(
      run_report({.runs = {(older.folder / "other").string(), older.run}, .format = ReportFormat::kJson})
          .out);
  CHECK(both["runs"][1]["differs_in"].empty());
}

TEST_CASE("a_curve_of_fewer_or_more_columns_is_read_by_their_names") {
  const OlderRun older;
  std::filesystem::remove(older.folder / "run/summary.json");
  SECTION("fewer") {
    write_older(older.folder / "run/curve.csv", "seconds,version,threshold,test_accuracy\n1.5,20,3,0.25\n");
    CHECK_THAT(older.report(), Contains("version 20 after 1.500 s, threshold 3\n") &&
                                   Contains("test accuracy 25.00 % at last") &&
                                   Contains("curve.csv is of an older version: no column lpr\n"));
  }
  SECTION("more, and in another order") {
    write_older(older.folder / "run/curve.csv",
                "version,seconds,iterations,threshold,lpr,train_loss,train_accuracy,colour,test_loss,test_"
                "accuracy\n"
                "20,1.5,400,3,,,,7,1.25,0.25\n");
    CHECK_THAT(older.report(), Contains("version 20 after 1.500 s, threshold 3\n") &&
                                   Contains("test accuracy 25.00 % at last") && !Contains("curve.csv"));
  }
  SECTION("a row of another number of cells is still none") {
    write_older(older.folder / "run/curve.csv", "seconds,version,threshold\n1.5,20,3,0.25\n");
    CHECK_THAT(older.report(), Contains("curve.csv:2: 4 cells, expected 3"));
  }
}

TEST_CASE("without_a_histogram_medians_are_those_of_the_workers") {
  const OlderRun older;
  std::filesystem::remove(older.folder / "run/phases_histogram.csv");
  const std::string reported = older.report();
  CHECK_THAT(reported, Contains("no phases_histogram.csv: it is of an older version"));
  const nlohmann::json all = older.json()["all"]["phases"]["COMPUTE_GRADS"];
  CHECK(all["count"] == 20);
  CHECK(all["total_seconds"] == 0.4);
  CHECK(all["p50_ms"].get<double>() == Approx(10.0).epsilon(0.016));
  CHECK(all["p95_ms"].get<double>() == Approx(30.0).epsilon(0.016));
}

TEST_CASE("phases_of_an_older_version_lack_a_column_and_nothing_else") {
  const OlderRun older;
  std::filesystem::remove(older.folder / "run/phases_histogram.csv");
  write_older(older.folder / "run/phases.csv",
              "node,thread,phase,count,total_seconds\n0,0,COMPUTE_GRADS,3,0.300000000\n"
              "0,0,unaccounted,0,0.100000000\n");
  const std::string reported = older.report();
  CHECK_THAT(reported, Contains("phases.csv is of an older version: no column hidden_seconds\n"));
  CHECK(older.json()["all"]["phases"]["COMPUTE_GRADS"]["p50_ms"].get<double>() ==
        Approx(100.0).epsilon(0.016));
}
