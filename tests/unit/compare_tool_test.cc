// `paceline report --compare`: which runs are one policy's, what cannot be compared, and that nobody wins who
// should not. Runs are written as the daemons and the simulator write them, and read from their directories.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "common/config/load.h"
#include "common/files/atomic_file.h"
#include "common/report/curve.h"
#include "common/report/run_summary.h"
#include "common/report/staleness.h"
#include "tests/unit/temp_folder.h"
#include "tools/report.h"

namespace paceline {
namespace {

using Catch::Contains;
using testing::TempFolder;

struct Shown {
  int status;
  std::string out, err;
};

// Writes runs into a folder and reports on all of them, in the order in which they were written.
class Laboratory {
 public:
  using Change = std::function<void(RunSummary&)>;

  // A run of 100 iterations on two nodes that took `seconds`, with `overrides` to its configuration.
  Laboratory& run(std::uint64_t seed, double seconds, std::vector<std::string> overrides,
                  const Change& change = {}, const std::vector<CurveRow>& curve = {}) {
    const std::filesystem::path path = folder_ / ("run" + std::to_string(runs_.size()));
    runs_.push_back(path.string());
    std::filesystem::create_directories(path);
    overrides.insert(overrides.end(), {"run.seed=" + std::to_string(seed), "run.out=" + path.string(),
                                       "cluster.nodes=2", "train.total_iterations=100"});
    const Result<RunConfig> config = parse_config("run: {name: lab}\n", "lab", overrides, LoadFor::kReading);
    REQUIRE(config.is_ok());
    REQUIRE(write_file_atomically(path / "config.yaml", to_yaml(*config)));
    RunSummary summary;
    summary.policy = "any";
    summary.nodes = 2;
    summary.threads_per_node = 1;
    summary.iterations = 100;
    summary.wall_seconds = seconds;
    summary[Phase::kBatch] = {1.0, 100};
    summary[Phase::kComputeGrads] = {9.0, 100};
    summary[Phase::kApplyGrads] = {2.0, 100};
    summary[Phase::kBarrier] = {4.0, 100};
    summary[Phase::kPsParam] = {3.0, 100};
    if (change) change(summary);
    REQUIRE(write_curve(path, curve));
    WorkerStaleness worker{WorkerId(0, 0), {}, {}};
    worker.clocks.add(0, 75);
    worker.clocks.add(2, 25);
    worker.gradients.add(3072, 100);  // of a bucket whose middle is 3104
    const std::vector<WorkerStaleness> workers{worker};
    REQUIRE(write_staleness(path, workers));
    set_staleness(summary, workers);
    REQUIRE(write_summary(path, summary));
    return *this;
  }

  // The last one's configuration, past what all have in common.
  void change(const std::string& value) const {
    const std::string file = runs_.back() + "/config.yaml";
    const Result<RunConfig> config = load_config(file, std::vector<std::string>{value, "data.path=/data"});
    REQUIRE(config.is_ok());
    REQUIRE(write_file_atomically(file, to_yaml(*config)));
  }

  Shown compare(ReportOptions options = {}) const {
    options.runs = runs_;
    options.compare = true;
    std::ostringstream out, err;
    const int status = report(options, out, err);
    return {status, out.str(), err.str()};
  }
  nlohmann::json json(ReportOptions options = {}) const {
    options.json = true;
    const Shown shown = compare(options);
    REQUIRE(shown.status == 0);
    return nlohmann::json::parse(shown.out);
  }
  const std::string& path(std::size_t run) const { return runs_[run]; }

 private:
  TempFolder folder_;
  std::vector<std::string> runs_;
};

const std::vector<std::string> kBsp{"sync.policy=bsp"};
const std::vector<std::string> kSsp{"sync.policy=ssp", "sync.threshold=3"};

// `seeds` runs of each, SSP faster by about 10 s.
void add_pairs(Laboratory& lab, std::uint64_t seeds) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const double s = 100.0 + 7.0 * static_cast<double>(seed % 3);
    lab.run(seed, s, kBsp).run(seed, s - 10.0 - 0.1 * static_cast<double>(seed), kSsp);
  }
}

std::vector<CurveRow> curve_of(const std::vector<double>& accuracies, double late = 0.0) {
  std::vector<CurveRow> rows;
  for (const double accuracy : accuracies) {
    const auto place = static_cast<std::int64_t>(rows.size()) + 1;
    CurveRow row{late + 10.0 * static_cast<double>(place), Version(5 * place), Threshold(0)};
    row.test_accuracy = accuracy;
    rows.push_back(row);
  }
  return rows;
}

}  // namespace

TEST_CASE("runs_that_differ_by_seed_and_folder_alone_are_one_policy_s_and_are_paired_by_seed") {
  Laboratory lab;
  add_pairs(lab, 5);
  const auto json = lab.json();
  REQUIRE(json["groups"].size() == 2);
  CHECK(json["groups"][0]["name"] == "bsp");
  CHECK(json["groups"][1]["name"] == "ssp(3)");
  CHECK(json["groups"][1]["runs"].size() == 5);
  const auto& pair = json["tables"][0]["pairs"][0];
  CHECK(pair["seeds"] == 5);
  CHECK(pair["mean"].get<double>() == Approx(-10.3));
  // The scatter of 0.1, 0.2, ... is 0.158114; t(0.975; 4) = 2.776445; / sqrt(5).
  CHECK(pair["high"].get<double>() == Approx(-10.3 + 0.196324).epsilon(1e-6));
  CHECK(pair["verdict"] == "second_is_better");
  CHECK(json["tables"][0]["winner"] == "ssp(3)");
  CHECK_THAT(lab.compare().out,
             Contains("time at 100 iterations, s") && Contains("winner: ssp(3)") && Contains("Real runs"));
}

TEST_CASE("four_seeds_give_differences_and_no_winner") {
  Laboratory lab;
  add_pairs(lab, 4);
  const Shown shown = lab.compare();
  CHECK_THAT(shown.out,
             Contains("no winner: fewer than 5 seeds") && Contains("ssp(3) - bsp") && !Contains("is faster"));
}

TEST_CASE("groups_of_one_policy_are_named_by_what_differs_and_shown_with_it") {
  Laboratory lab;
  std::vector<std::string> lazy = kSsp;
  lazy.emplace_back("sync.refresh_clocks=null");
  lab.run(1, 10, kSsp).run(1, 11, lazy).run(1, 12, {"sync.policy=dtssp", "train.optimizer.lr=0.5"});
  const auto groups = lab.json()["groups"];
  REQUIRE(groups.size() == 3);
  CHECK(groups[0]["name"] == "ssp(3) sync.refresh_clocks=1");
  CHECK(groups[1]["name"] == "ssp(3) sync.refresh_clocks=null");
  CHECK(groups[2]["name"] == "dtssp(3, 3-10)");
  CHECK(groups[2]["differing"]["train.optimizer.lr"] == "0.5");
}

TEST_CASE("where_sockets_data_and_folders_are_makes_no_other_group_but_another_transport_does") {
  Laboratory lab;
  const auto at = [](const std::string& endpoint, const std::string& more) {
    std::vector<std::string> given = kBsp;
    given.insert(given.end(), {"cluster.endpoints=[\"" + endpoint + "\"]", more});
    return given;
  };
  lab.run(1, 10, at("ipc:///tmp/a/0", "data.path=/data/a")).run(2, 10, at("ipc:///tmp/b/0", "run.name=b"));
  CHECK(lab.json()["groups"].size() == 1);
  lab.run(3, 10, at("tcp://127.0.0.1:5555", "run.log_level=debug"));
  CHECK(lab.json()["groups"].size() == 2);
}

// A script that makes keys for each run has a folder of its own for each, too.
TEST_CASE("whether_there_are_keys_makes_another_group_and_where_they_are_does_not") {
  Laboratory lab;
  const auto with = [](const std::string& security) {
    std::vector<std::string> given = kBsp;
    given.insert(given.end(), {"cluster.endpoints=[\"tcp://alpha:5555\"]", security});
    return given;
  };
  lab.run(1, 10, with("security.keys=/tmp/run-1.keys")).run(2, 10, with("security.keys=/tmp/run-2.keys"));
  CHECK(lab.json()["groups"].size() == 1);
  lab.run(3, 10, with("security.allow_insecure=true")).run(4, 10, with("security.keys=null"));
  const auto groups = lab.json()["groups"];
  REQUIRE(groups.size() == 2);
  CHECK(groups[0]["name"] == "bsp security.keys=given");
  CHECK(groups[1]["name"] == "bsp security.keys=null");
}

TEST_CASE("other_work_is_refused_with_the_key_and_both_runs") {
  const std::pair<const char*, const char*> cases[] = {
      {"train.batch_size=64", "train.batch_size is 64, expected 128 as in "},
      {"cluster.nodes=3", "cluster.nodes is 3, expected 2 as in "},
      {"cluster.threads_per_node=2", "cluster.threads_per_node is 2, expected 1 as in "},
      {"train.total_iterations=200", "train.total_iterations is 200, expected 100 as in "},
      {"data.kind=cifar10", "data.kind is cifar10, expected synthetic as in "},
      {"train.model=cifar_cnn", "train.model is cifar_cnn, expected cifar_cnn_small as in "}};
  for (const auto& [other, message] : cases) {
    Laboratory lab;
    lab.run(1, 10, kBsp).run(1, 10, kSsp);
    lab.run(2, 10, kSsp).change(other);
    const Shown shown = lab.compare();
    CHECK(shown.status == 2);
    CHECK(shown.out.empty());
    CHECK_THAT(shown.err, Contains(lab.path(2) + ": " + message + lab.path(0)));
  }
}

TEST_CASE("another_cluster_is_refused_also_a_simulated_one_and_another_trace") {
  const auto with = [](std::vector<std::string> policy, const std::string& more) {
    policy.insert(policy.end(), {"emulate.base_step=300ms", more});
    return policy;
  };
  const auto simulated = [](RunSummary& s) { s.simulated_seed = 1; };
  const std::pair<const char*, const char*> cases[] = {
      {"simulate.costs.message=1ms", "simulate.costs.message is 20us, expected 1ms as in "},
      {"simulate.network.latency=3ms", "simulate.network.latency is 100us, expected 3ms as in "},
      {"simulate.metric.final_accuracy=0.5", "simulate.metric.final_accuracy is null"},
      {"emulate.slowdown=[1, 2]", "emulate.slowdown is []"}};
  for (const auto& [key, message] : cases) {
    Laboratory lab;
    lab.run(1, 10, with(kBsp, key), simulated).run(1, 9, with(kSsp, "run.name=b"), simulated);
    const Shown shown = lab.compare();
    CHECK(shown.status == 2);
    CHECK_THAT(shown.err, Contains(lab.path(1) + ": " + message));
  }
  Laboratory real;  // nothing was simulated
  real.run(1, 10, with(kBsp, "simulate.network.latency=3ms")).run(1, 9, with(kSsp, "emulate.cores=7"));
  CHECK(real.compare().status == 0);
  Laboratory traced;
  traced.run(1, 10, kBsp, [](RunSummary& s) { s.simulated_seed = 1, s.trace = "0a"; });
  traced.run(1, 9, kSsp, [](RunSummary& s) { s.simulated_seed = 1, s.trace = "0b"; });
  CHECK_THAT(traced.compare().err,
             Contains(traced.path(1) + ": computations are drawn from another trace (0b) than those of " +
                      traced.path(0) + " (0a), expected the same"));
}

TEST_CASE("where_the_data_was_is_shown_when_the_groups_had_it_elsewhere") {
  Laboratory lab;
  std::vector<std::string> full = kBsp, tenth = kSsp;
  full.emplace_back("data.path=/data/full");
  tenth.emplace_back("data.path=/data/tenth");
  lab.run(1, 10, full).run(1, 2, tenth);
  // What an epoch was taken for says nothing of where it is, nor how many the same iterations were called.
  full.emplace_back("data.train_samples=6400");
  full.emplace_back("train.total_epochs=2");
  lab.run(2, 10, full);
  const auto groups = lab.json()["groups"];
  REQUIRE(groups.size() == 2);
  CHECK(groups[0]["name"] == "bsp");
  CHECK(groups[0]["differing"]["data.path"] == "/data/full");
  CHECK(groups[1]["differing"]["data.path"] == "/data/tenth");
}

TEST_CASE("the_relative_change_is_of_the_seeds_that_both_have") {
  Laboratory lab;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    lab.run(seed, 20.0, kBsp).run(seed, 10.0 - 0.1 * static_cast<double>(seed), kSsp);
  }
  lab.run(6, 1000.0, kBsp);
  CHECK(lab.json()["tables"][0]["pairs"][0]["relative"].get<double>() == Approx(-10.3 / 20.0));
  CHECK_THAT(lab.compare().out, Contains("  -51.50 %  p "));
}

TEST_CASE("runs_of_which_every_seed_is_a_copy_have_no_p_and_no_winner") {
  Laboratory lab;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) lab.run(seed, 20.0, kBsp).run(seed, 19.99, kSsp);
  const auto table = lab.json()["tables"][0];
  CHECK(table["pairs"][0]["verdict"] == "no_scatter");
  CHECK(table["pairs"][0]["p"].is_null());
  CHECK(table["pairs"][0]["adjusted_p"].is_null());
  CHECK(table["winner"].is_null());
  for (const auto& estimate : {table["pairs"][0], table["values"][0], table["values"][1]}) {
    CHECK(estimate["low"].is_null());
    CHECK(estimate["high"].is_null());
  }
  CHECK(table["values"][1]["mean"].get<double>() == Approx(19.99));
  CHECK_THAT(lab.compare().out,
             Contains("  19.990 (the same with each seed)\n") && Contains("  -0.010  -0.05 %"));
  CHECK_THAT(lab.compare().out, Contains("5 seeds: no verdict: the same with each seed, so one run each") &&
                                    Contains("no winner: the seeds draw nothing") && !Contains("  p 0"));
}

TEST_CASE("without_tests_the_time_is_to_training_accuracy_and_says_so") {
  Laboratory lab;
  std::vector<CurveRow> curve = curve_of({0.5, 0.7, 0.8, 0.9});
  for (CurveRow& row : curve) row.train_accuracy = std::exchange(row.test_accuracy, std::nullopt);
  const auto simulated = [](RunSummary& s) { s.simulated_seed = 1; };
  lab.run(1, 10, kBsp, simulated, curve).run(2, 10, kBsp, simulated);
  ReportOptions options;
  options.target = 0.8;
  const auto table = lab.json(options)["tables"][1];
  CHECK(table["title"] == "time to training accuracy 80.00 %");
  CHECK(table["values"][0]["by_seed"]["1"] == 40.0);
  CHECK_THAT(lab.compare(options).out,
             Contains("0 windows of training accuracy") && Contains("timing mode evaluates nothing"));
}

TEST_CASE("evaluations_at_other_instants_are_no_measure_of_one_time") {
  Laboratory lab;
  std::vector<std::string> coarse = kSsp;
  coarse.emplace_back("train.eval_every_clocks=50");
  lab.run(1, 10, kBsp, {}, curve_of({0.1, 0.2, 0.3})).run(1, 10, coarse);
  CHECK(lab.compare().status == 0);
  ReportOptions options;
  options.target = 0.2;
  CHECK_THAT(lab.compare(options).err, Contains("--target: ") && Contains("train.eval_every_clocks is 50"));
}

TEST_CASE("a_run_that_its_own_target_ended_at_one_evaluation_is_censored_with_that_reason") {
  Laboratory lab;
  std::vector<std::string> stopped = kBsp;
  stopped.insert(stopped.end(), {"run.target_accuracy=0.8", "train.eval_every_clocks=5"});
  lab.run(1, 10, stopped, [](RunSummary& s) { s.iterations = 60; }, curve_of({0.5, 0.7, 0.81}));
  ReportOptions options;
  options.target = 0.8;
  CHECK_THAT(lab.compare(options).out,
             Contains("ended by run.target_accuracy at the first single evaluation"));
}

TEST_CASE("a_real_and_a_simulated_run_are_not_compared") {
  Laboratory lab;
  lab.run(1, 10, kBsp).run(1, 10, kSsp, [](RunSummary& s) { s.simulated_seed = 1; });
  const Shown shown = lab.compare();
  CHECK(shown.status == 2);
  CHECK_THAT(shown.err, Contains(lab.path(1) + ": simulated, expected a real run as " + lab.path(0) + " is"));
}

TEST_CASE("one_seed_twice_is_refused_by_name") {
  Laboratory lab;
  lab.run(1, 10, kBsp).run(1, 11, kBsp);
  CHECK_THAT(lab.compare().err, Contains("same configuration and seed 1 as " + lab.path(0)));
}

TEST_CASE("a_run_that_failed_lost_a_node_or_ended_early_is_named_and_blocks_the_winner") {
  const std::pair<Laboratory::Change, const char*> cases[] = {
      {[](RunSummary& s) { s.status = "failed", s.reason = "not finite"; }, "failed (not finite)"},
      {[](RunSummary& s) { s.lost_nodes = 1; }, "1 nodes lost"},
      {[](RunSummary& s) { s.resumed_from = Version(7); }, "resumed"},
      {[](RunSummary& s) { s.iterations = 60; }, "60 of 100 iterations"}};
  for (const auto& [change, why] : cases) {
    Laboratory lab;
    add_pairs(lab, 6);
    lab.run(7, 100, kBsp).run(7, 1, kSsp, change);
    const Shown shown = lab.compare();
    CHECK_THAT(shown.out, Contains("censored " + lab.path(13) + ": " + why) &&
                              Contains("no winner: runs are censored") && Contains("1 of 7 runs censored"));
    // No figure of those that are left, which did well.
    CHECK_THAT(shown.out, Contains("-  1 of 7 runs censored\n") && Contains("-  no verdict: censored\n"));
  }
}

// Under bsp it ends in the same bits.
TEST_CASE("of_a_resumed_run_the_accuracy_counts_under_bsp_and_its_times_do_not") {
  Laboratory lab;
  const auto resumed = [](const char* policy) {
    return [policy](RunSummary& s) { s.policy = policy, s.test_accuracy = 0.8, s.resumed_from = Version(7); };
  };
  lab.run(1, 10, kBsp, resumed("bsp")).run(1, 9, kSsp, resumed("ssp"));
  const auto tables = lab.json()["tables"];
  REQUIRE(tables.size() == 2);
  CHECK(tables[0]["censored"].size() == 2);
  CHECK(tables[1]["key"] == "accuracy");
  CHECK(tables[1]["values"][0]["by_seed"]["1"] == Approx(80.0));
  CHECK(tables[1]["censored"] == nlohmann::json::array({lab.path(1) + ": resumed"}));
  // Each is named below its group.
  CHECK_THAT(lab.compare().out,
             Contains("  1 of 1 runs censored\n    censored " + lab.path(0) + ": resumed\n") &&
                 Contains("  1 of 1 runs censored\n    censored " + lab.path(1) + ": resumed\n"));
}

TEST_CASE("a_skipped_iteration_is_one_of_the_fixed_number") {
  Laboratory lab;
  lab.run(1, 10, kBsp, [](RunSummary& s) { s.iterations = 97, s.skipped = 3; });
  CHECK(lab.json()["tables"][0]["censored"].empty());
}

TEST_CASE("with_backup_workers_another_gradient_takes_the_place_of_a_skipped_one") {
  const auto censored = [](const char* share, std::int64_t iterations) {
    Laboratory lab;
    const std::vector<std::string> backup{"sync.policy=backup", std::string("train.share=") + share};
    lab.run(1, 10, backup,
            [=](RunSummary& s) { s.policy = "backup", s.iterations = iterations, s.skipped = 5; });
    return lab.json()["tables"][0]["censored"].size();
  };
  CHECK(censored("even", 96) == 1);
  CHECK(censored("even", 100) == 0);
  CHECK(censored("pool", 95) == 0);
}

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
