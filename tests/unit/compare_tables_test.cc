// What `paceline report --compare` shows besides the pairs: times to an accuracy, equivalence, phases, staleness.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/unit/laboratory.h"

namespace paceline {

TEST_CASE("time_to_accuracy_is_a_table_of_its_own_and_a_run_that_never_gets_there_blocks_its_winner") {
  Laboratory lab;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const double noise = 0.001 * static_cast<double>(seed);
    // Slow iterations that learn, and quick ones that learn less.
    lab.run(seed, 100, kBsp, {}, curve_of({0.5, 0.7 + noise, 0.8, 0.8, 0.8}));
    lab.run(seed, 50 + noise, kSsp, {}, curve_of({0.3, 0.6, 0.7, 0.8, seed == 4 ? 0.6 : 0.8}, noise));
  }
  ReportOptions at_76;
  at_76.target = 0.76;
  const auto json = lab.json(at_76);
  REQUIRE(json["tables"][1]["key"] == "time_to_accuracy");
  CHECK(json["tables"][0]["winner"] == "ssp(3)");
  CHECK(json["tables"][1]["winner"].is_null());
  CHECK(json["tables"][1]["values"][0]["by_seed"]["1"] == 40.0);
  CHECK(json["tables"][1]["values"][1]["by_seed"]["4"].is_null());
  CHECK_THAT(lab.compare(at_76).out,
             Contains("the mean of three evaluations was never at 76.00 %, a single one at most at 80.00 %"));
  ReportOptions at_65;
  at_65.target = 0.65;  // all reach that
  CHECK(lab.json(at_65)["tables"][1]["winner"] == "bsp");
  CHECK_THAT(lab.compare().out, Contains("time to accuracy: say which with --target"));
}

TEST_CASE("runs_of_several_lengths_are_compared_by_the_time_to_an_accuracy_alone") {
  Laboratory lab;
  const auto tested = [](RunSummary& s) { s.test_accuracy = 0.8; };
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const double late = 0.01 * static_cast<double>(seed);
    lab.run(seed, 100, kBsp, tested, curve_of({0.5, 0.7, 0.8, 0.8, 0.8}));
    lab.run(seed, 50, {"sync.policy=bsp", "exchange.kind=allreduce"}, tested,
            curve_of({0.7, 0.8, 0.8}, late));
    lab.change("train.total_iterations=200");
  }
  CHECK_THAT(lab.compare().err, Contains("train.total_iterations is 200, expected 100 as in " + lab.path(0) +
                                         "; of runs of any length --target compares"));
  ReportOptions at_75;
  at_75.target = 0.75;
  const auto json = lab.json(at_75);
  REQUIRE(json["tables"].size() == 1);
  CHECK(json["tables"][0]["key"] == "time_to_accuracy");
  CHECK(json["tables"][0]["winner"] == "bsp exchange.kind=allreduce train.total_iterations=200");
  CHECK_THAT(lab.compare(at_75).out, Contains("final test accuracy: the runs are of several lengths\n"));
}

TEST_CASE("the_final_model_s_evaluation_of_the_last_version_counts_once") {
  Laboratory lab;
  std::vector<CurveRow> curve = curve_of({0.2, 0.9});
  curve.push_back(curve.back());
  lab.run(1, 10, kBsp, {}, curve);
  ReportOptions options;
  options.target = 0.6;
  CHECK_THAT(lab.compare(options).out, Contains("2 evaluations, expected 3 or more"));
}

TEST_CASE("accuracies_within_a_point_are_equivalent_and_a_run_without_one_is_censored") {
  Laboratory lab;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const double x = 0.001 * static_cast<double>(seed % 3);
    lab.run(seed, 100, kBsp, [x](RunSummary& s) { s.test_accuracy = 0.81 + x; });
    lab.run(seed, 90, kSsp, [x](RunSummary& s) { s.test_accuracy = 0.812 - x; });
  }
  const auto json = lab.json();
  CHECK(json["tables"][1]["key"] == "accuracy");
  CHECK(json["tables"][1]["pairs"][0]["verdict"] == "equivalent");
  CHECK_THAT(lab.compare().out, Contains("equivalent, within 1 point"));
  lab.run(6, 100, kBsp);
  CHECK_THAT(lab.compare().out, Contains(": not evaluated"));
}

TEST_CASE("the_split_is_in_seconds_for_each_worker_and_adds_up_to_its_phases") {
  Laboratory lab;
  lab.run(1, 10, kBsp).run(2, 10, kBsp, [](RunSummary& s) { s.iterations = 5; });  // does not count
  const auto split = lab.json()["groups"][0]["split"];
  CHECK(split["compute"] == 5.0);  // (1 + 9) of two workers
  CHECK(split["apply"] == 1.0);
  CHECK(split["wait"] == 2.0);
  CHECK(split["network"] == 1.5);
  CHECK(split["phases"]["COMPUTE_GRADS"] == 4.5);
}

TEST_CASE("staleness_is_shown_as_a_histogram_over_all_runs_of_a_group") {
  Laboratory lab;
  lab.run(1, 10, kBsp).run(2, 10, kBsp);
  const auto staleness = lab.json()["groups"][0]["staleness"];
  CHECK(staleness["clocks"]["mean"] == 0.5);
  CHECK(staleness["clocks"]["histogram"] == nlohmann::json::parse("[[0, 150], [2, 50]]"));
  CHECK(staleness["gradients"]["max"] == 3072);
  CHECK(staleness["gradients"]["mean"] == 3072.0);
  // A run that is not compared says nothing of this either.
  lab.run(3, 10, kBsp, [](RunSummary& s) { s.iterations = 5; });
  CHECK(lab.json()["groups"][0]["staleness"] == staleness);
  const std::string shown = lab.compare().out;
  CHECK_THAT(shown, Contains(" 75.0 %       -  25.0 % ") && Contains("  64-127 128-255 256-511    512+\n"));
  CHECK_THAT(shown, Contains("       - 100.0 %\n"));  // 3072 gradients
}

TEST_CASE("options_that_go_with_compare_alone_and_impossible_targets_are_refused") {
  Laboratory lab;
  lab.run(1, 10, kBsp);
  std::ostringstream out, err;
  ReportOptions options;
  options.runs = {lab.path(0)};
  options.json = true;
  CHECK(report(options, out, err) == 2);
  CHECK_THAT(err.str(), Contains("go with --compare"));
  ReportOptions percent;
  percent.target = 80;
  CHECK_THAT(lab.compare(percent).err, Contains("--target: expected an accuracy above 0 and up to 1"));
}

TEST_CASE("a_folder_without_a_configuration_or_a_run_is_named") {
  Laboratory lab;
  lab.run(1, 10, kBsp);
  std::filesystem::remove(lab.path(0) + "/config.yaml");
  CHECK_THAT(lab.compare().err, Contains("config.yaml"));
  std::filesystem::remove(lab.path(0) + "/summary.json");
  CHECK_THAT(lab.compare().err, Contains("unfinished, it has no summary.json"));
  // As `doctor --exchange` leaves one.
  std::filesystem::create_directory(lab.path(0) + "/run");
  REQUIRE(write_summary(lab.path(0) + "/run", RunSummary{}).is_ok());
  CHECK_THAT(lab.compare().err, Contains("no run directory, expected " + lab.path(0) + "/run"));
}

}  // namespace paceline
