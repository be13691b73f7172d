// Training mode from the command to its files: the same seed gives the same bytes, the model can be
// evaluated, evaluations stand in the curve at the instants of their versions, and what is refused.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <map>
#include <sstream>

#include "common/files/atomic_file.h"
#include "common/report/run_summary.h"
#include "tests/unit/training_fixture.h"
#include "tools/evaluate.h"
#include "tools/simulate.h"

namespace paceline::test {
namespace {

using Catch::Contains;
namespace fs = std::filesystem;

const std::string kTrained = R"(
run: {seed: 7}
cluster: {nodes: 2, threads_per_node: 2}
sync: {policy: ssp, threshold: 2}
train:
  model: layers
  layers: [{kind: pool, kernel: 4}, {kind: flatten}, {kind: dense, out: 10}]
  backend: reference
  batch_size: 8
  total_iterations: 160
  eval_every_clocks: 8
  optimizer: {lr: 0.05}
simulate:
  mode: training
  compute: {distribution: lognormal, mean: 100ms, cv: 0.8}
)";

class Trainer {
 public:
  Trainer() { REQUIRE(write_file_atomically(config_, kTrained).is_ok()); }

  int operator()(const std::string& out, std::vector<std::string> overrides) {
    overrides.push_back("data.path=" + training_data());
    return without_data(out, std::move(overrides));
  }
  int without_data(const std::string& out, std::vector<std::string> overrides) {
    printed_.str("");
    refused_.str("");
    return run_simulate({config_.string(), std::move(overrides), (folder_ / out).string(), Force::kTwice, ""},
                        printed_, refused_);
  }
  fs::path operator/(const std::string& name) const { return folder_ / name; }
  std::string refusal() const { return refused_.str(); }
  std::map<std::string, std::string> files_of(const std::string& run) const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::directory_iterator(folder_ / run)) {
      files[entry.path().filename().string()] = read_file(entry.path(), 1 << 24).value();
    }
    return files;
  }

 private:
  testing::TempFolder folder_;
  fs::path config_ = folder_ / "run.yaml";
  std::ostringstream printed_, refused_;
};

}  // namespace

TEST_CASE("after_training_the_same_seed_gives_the_same_bytes_of_every_file_the_model_among_them") {
  Trainer paceline;
  REQUIRE(paceline("run", {}) == 0);
  const auto first = paceline.files_of("run");
  REQUIRE(paceline("run", {}) == 0);
  CHECK(paceline.files_of("run") == first);
  std::vector<std::string> names;
  for (const auto& [name, bytes] : first) names.push_back(name);
  CHECK(names == std::vector<std::string>{"config.yaml", "curve.csv", "model.bin", "phases.csv",
                                          "phases_histogram.csv", "progress.csv", "staleness.csv",
                                          "summary.json"});
  REQUIRE(paceline("run", {"run.seed=8"}) == 0);
  for (const char* name : {"curve.csv", "model.bin", "phases.csv", "summary.json"}) {
    INFO(name);
    CHECK(paceline.files_of("run").at(name) != first.at(name));
  }
}

TEST_CASE("so_it_is_with_nodes_that_crash_and_come_back") {
  const std::vector<std::string> given{
      "cluster.nodes=3",
      "cluster.lease=1s",
      "cluster.heartbeat=100ms",
      "cluster.gradient_encoding=int8",
      "train.optimizer.kind=momentum",
      "simulate.events=[{at: 900ms, node: 1, kind: crash}, {at: 2500ms, node: "
      "1, kind: join}, {at: 500ms, node: 2, kind: join}]"};
  Trainer paceline;
  REQUIRE(paceline("run", given) == 0);
  const auto first = paceline.files_of("run");
  CHECK(read_summary(paceline / "run")->lost_nodes == 1);
  REQUIRE(paceline("run", given) == 0);
  CHECK(paceline.files_of("run") == first);
}

TEST_CASE("paceline_evaluate_reads_the_model_and_finds_the_accuracy_of_the_summary") {
  Trainer paceline;
  REQUIRE(paceline("run", {"train.total_iterations=400"}) == 0);
  const auto summary = read_summary(paceline / "run");
  REQUIRE(summary);
  REQUIRE(summary->test_accuracy);
  CHECK(summary->final_version == Version(100));
  std::ostringstream out, err;
  REQUIRE(evaluate({(paceline / "run").string(), ""}, out, err) == 0);
  char accuracy[64];
  std::snprintf(accuracy, sizeof accuracy, "loss %.4f, accuracy %.2f %%", *summary->test_loss,
                100.0 * *summary->test_accuracy);
  CHECK_THAT(out.str(), Contains("version 100") && Contains(accuracy));
}

TEST_CASE("evaluations_stand_in_the_curve_where_their_versions_were_reached_and_take_no_time") {
  const auto data = [] {
    RunConfig config = with_policy(training_config(2, 2, 2), PolicyKind::kSsp);
    config.sync.threshold = 2;
    return config;
  };
  RunConfig config = data();
  config.train.eval_every_clocks = 5;
  const simulate::Outcome evaluated = trained(config);
  std::vector<std::int64_t> versions;
  double before = 0.0;
  for (const CurveRow& row : evaluated.curve) {
    if (!row.test_accuracy) continue;
    versions.push_back(row.version.value);
    CHECK(row.seconds > before);
    before = row.seconds;
  }
  CHECK(versions == std::vector<std::int64_t>{5, 10, 15, 20});
  CHECK(before <= evaluated.summary.wall_seconds);
  const simulate::Outcome at_end = trained(data());
  CHECK(at_end.summary.wall_seconds == evaluated.summary.wall_seconds);
  CHECK(at_end.summary.test_accuracy == evaluated.summary.test_accuracy);
  CHECK(same_floats(at_end.model->parameters, evaluated.model->parameters));
}

TEST_CASE("a_target_accuracy_ends_the_run_at_the_instant_at_which_it_is_reached") {
  Trainer paceline;
  REQUIRE(paceline("whole", {"train.total_iterations=400"}) == 0);
  const auto whole = read_summary(paceline / "whole");
  REQUIRE(paceline("target", {"train.total_iterations=400", "run.target_accuracy=0.2"}) == 0);
  const auto target = read_summary(paceline / "target");
  CHECK(target->status == "ok");
  CHECK(target->wall_seconds < whole->wall_seconds);
  CHECK(target->iterations < whole->iterations);
}

TEST_CASE("dtssp_follows_the_metric_that_is_measured") {
  Trainer paceline;
  REQUIRE(paceline("run",
                   {"sync.policy=dtssp", "sync.threshold=3", "sync.threshold_min=1", "sync.threshold_max=6",
                    "sync.lpr.window_clocks=5", "train.total_iterations=400"}) == 0);
  const std::string curve = paceline.files_of("run").at("curve.csv");
  std::map<std::string, int> thresholds;
  std::istringstream lines(curve);
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    const auto second = line.find(',', line.find(',') + 1);
    ++thresholds[line.substr(second + 1, line.find(',', second + 1) - second - 1)];
  }
  CHECK(thresholds.size() > 1);
}

TEST_CASE("what_training_mode_cannot_do_is_refused_in_one_line_that_names_it") {
  Trainer paceline;
  struct Case {
    std::vector<std::string> overrides;
    std::string line;
  };
  for (const Case& bad :
       std::vector<Case>{{{"simulate.metric.final_accuracy=0.8"}, "simulate.metric.final_accuracy"},
                         {{"simulate.metric.curve=curve.csv"}, "simulate.metric.curve"},
                         {{"simulate.mode=both"}, "simulate.mode: unknown choice"},
                         {{"data.path=/no/such/folder"}, "/no/such/folder"},
                         {{"run.target_accuracy=0.5", "train.eval_every_clocks=null"}, "run.target_accuracy"},
                         {{"simulate.compute.distribution=emulated", "simulate.compute.mean=null",
                           "simulate.compute.cv=0.3"},
                          "nothing says how long an iteration takes"}}) {
    INFO(bad.line);
    CHECK(paceline.without_data("bad", bad.overrides) == 2);
    CHECK_THAT(paceline.refusal(), Contains(bad.line));
    CHECK(std::ranges::count(paceline.refusal(), '\n') == 1);
    CHECK_FALSE(fs::exists(paceline / "bad"));
  }
  CHECK(paceline.without_data("bad", {}) == 2);
  CHECK_THAT(paceline.refusal(), Contains("run.yaml: data.path: no data set"));
}

}  // namespace paceline::test
