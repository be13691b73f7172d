// The files of configs/: each loads, the reference is the schema's, and the policies' differ only in `sync:`.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "common/config/daemon_options.h"
#include "common/config/load.h"
#include "common/config/schema.h"

namespace paceline {
namespace {

std::string path_of(const std::string& file) { return std::string(PACELINE_CONFIGS_DIR) + "/" + file; }

std::string contents(const std::string& file) {
  std::ifstream in(path_of(file));
  REQUIRE(in.is_open());
  return {std::istreambuf_iterator<char>(in), {}};
}

RunConfig loaded_file(const std::string& file) {
  Result<RunConfig> config = load_config(path_of(file), {});
  if (!config) FAIL(config.status().message());
  return std::move(config).value();
}

TEST_CASE("the_reference_is_what_the_schema_says_and_loads_as_the_defaults") {
  // When this fails: paceline check-config --reference > configs/reference.yaml
  CHECK(contents("reference.yaml") == reference_yaml());
  CHECK(loaded_file("reference.yaml") == RunConfig{});
}

TEST_CASE("where_a_key_is_said_is_the_line_of_its_file_or_the_command_line_or_the_file_alone") {
  const std::string file = path_of("sparknet.yaml");
  const std::string text = contents("sparknet.yaml");
  const auto before = text.find("  local_steps:");
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(before), '\n');
  CHECK(source_of(file, {}, "train.local_steps") == file + ":" + std::to_string(line));
  const std::vector<std::string> overrides{"train.local_steps=20"};
  CHECK(source_of(file, overrides, "train.local_steps") == "command line");
  CHECK(source_of(file, overrides, "train.local_time") == file);
}

TEST_CASE("every_key_of_the_reference_carries_its_effect_and_trade_off") {
  const config::Schema& schema = config::schema();
  REQUIRE(schema.keys.size() > 50);
  for (const config::Key& key : schema.keys) {
    INFO(key.path);
    CHECK_FALSE(key.words.effect.empty());
    CHECK_FALSE(key.words.trade_off.empty());
    CHECK(key.by_policy == !key.fallback.empty());
    CHECK(key.words.effect.find('\n') == std::string::npos);
    CHECK(schema.is_section(key.path.substr(0, key.path.rfind('.'))));
  }
}

TEST_CASE("the_policies_differ_only_in_sync") {
  RunConfig bsp = loaded_file("bsp.yaml");
  const std::map<std::string, PolicyKind> others{
      {"asp.yaml", PolicyKind::kAsp},           {"ssp.yaml", PolicyKind::kSsp},
      {"dtssp.yaml", PolicyKind::kDtssp},       {"random_walk.yaml", PolicyKind::kRandomWalk},
      {"dssp.yaml", PolicyKind::kDssp},         {"backup.yaml", PolicyKind::kBackup},
      {"sync_switch.yaml", PolicyKind::kSwitch}};
  for (const auto& [file, policy] : others) {
    INFO(file);
    RunConfig other = loaded_file(file);
    CHECK(other.sync.policy == policy);
    CHECK(other.sync.combine == bsp.sync.combine);
    other.sync = bsp.sync;
    if (policy == PolicyKind::kDssp) {
      // Up to 1 : 2 its controller may grant nothing any more once the fastest has waited (docs/SYNC.md).
      CHECK(other.emulate.slowdown.back() > 2.0 * other.emulate.slowdown.front());
      other.emulate.slowdown.back() = bsp.emulate.slowdown.back();
    }
    CHECK(other == bsp);
  }
}

// What a newcomer compares is to show what each policy can do: caches refreshed as by default, gradients applied on
// arrival where a lead would make them old, and one rate, which ends at 0.
TEST_CASE("the_policies_show_what_each_can_do") {
  for (const char* file : {"bsp.yaml", "ssp.yaml", "dtssp.yaml", "asp.yaml", "random_walk.yaml", "dssp.yaml",
                           "backup.yaml", "sync_switch.yaml"}) {
    INFO(file);
    const RunConfig c = loaded_file(file);
    CHECK(c.sync.refresh_clocks == 1);
    CHECK(c.sync.combine == CombineMode::kEach);
    const bool synchronous = c.sync.policy == PolicyKind::kBsp || c.sync.policy == PolicyKind::kBackup;
    if (c.sync.policy == PolicyKind::kSwitch) {
      CHECK(c.sync.stages.back().apply == ApplyMode::kEager);
    } else {
      CHECK((c.sync.apply == ApplyMode::kEager) == !synchronous);
    }
    CHECK(c.train.optimizer.schedule.kind == ScheduleKind::kCosine);
    CHECK(c.train.optimizer.schedule.final_factor == 0.0);
  }
}

// All of them, with the caches that read parameters only when they must, are dtssp_paper.yaml's; the thresholds and
// the progress that moves them are dtssp.yaml's, too.
TEST_CASE("the_dtssp_experiment_has_its_papers_values") {
  const RunConfig paper = loaded_file("dtssp_paper.yaml");
  CHECK(paper.cluster.cluster().workers() == 16);
  CHECK(paper.train.model == "cifar_cnn");
  CHECK(paper.train.batch_size == 128);
  CHECK(paper.train.total_iterations == 100'000);
  CHECK(paper.train.optimizer.kind == OptimizerKind::kAdam);
  CHECK(paper.sync.combine == CombineMode::kEach);
  CHECK(paper.sync.apply == ApplyMode::kVersioned);
  CHECK_FALSE(paper.sync.refresh_clocks);
  for (const char* file : {"dtssp_paper.yaml", "dtssp.yaml"}) {
    INFO(file);
    const SyncSection sync = loaded_file(file).sync;
    CHECK(sync.threshold == 3);
    CHECK(sync.threshold_min == 3);
    CHECK(sync.threshold_max == 10);
    CHECK(sync.lpr.metric == LprMetric::kAccuracy);
    CHECK(sync.lpr.increase_above == 5.0);
    CHECK(sync.lpr.decrease_below == -5.0);
  }
}

TEST_CASE("the_random_walk_is_dtssp_but_for_what_moves_the_threshold") {
  SyncSection walk = loaded_file("random_walk.yaml").sync;
  walk.policy = PolicyKind::kDtssp;
  CHECK(walk == loaded_file("dtssp.yaml").sync);
}

TEST_CASE("the_quickstart_is_dtssp_over_one_server_and_four_nodes_of_four") {
  const RunConfig c = loaded_file("quickstart.yaml");
  CHECK(c.sync.policy == PolicyKind::kDtssp);
  CHECK(c.cluster.nodes == 4);
  CHECK(c.cluster.threads_per_node == 4);
  CHECK(c.cluster.shards == 1);
  CHECK(c.data.kind == DataKind::kSynthetic);
}

TEST_CASE("bsp_then_asp_is_for_daemons_and_simulated_training_alike_and_scales_the_rate_by_the_workers") {
  const RunConfig c = loaded_file("bsp_then_asp.yaml");
  REQUIRE(c.sync.stages.size() == 2);
  CHECK(c.sync.stages[0].policy == PolicyKind::kBsp);
  CHECK(c.sync.stages[0].lr_scale == c.cluster.cluster().workers());
  CHECK(c.sync.stages[1].policy == PolicyKind::kAsp);
  CHECK(c.sync.combine == CombineMode::kMean);
  CHECK(c.simulate.mode == SimulateMode::kTraining);
  const DaemonOptions options{
      .config_path = path_of("bsp_then_asp.yaml"), .overrides = {"run.out=/tmp/run"}, .index = 0};
  CHECK(load_daemon_config(DaemonRole::kServer, options).is_ok());
}

TEST_CASE("balanced_batches_are_for_daemons_and_simulated_training_alike") {
  const RunConfig c = loaded_file("balanced.yaml");
  CHECK(c.train.batch_balance == BatchSizing::kBySpeed);
  CHECK(c.simulate.mode == SimulateMode::kTraining);
  const DaemonOptions options{
      .config_path = path_of("balanced.yaml"), .overrides = {"run.out=/tmp/run"}, .index = 0};
  CHECK(load_daemon_config(DaemonRole::kServer, options).is_ok());
}

TEST_CASE("a_caffe_net_is_for_one_worker_and_for_four_that_average") {
  const auto loaded = [](const std::string& name) {
    const std::vector<std::string> overrides = {"train.caffe_solver=" +
                                                path_of("caffe/" + name + "_solver.prototxt")};
    return load_config(path_of("caffe/" + name + ".yaml"), overrides).value();
  };
  const RunConfig one = loaded("quick");
  CHECK((one.train.total_iterations == 9000 && one.train.batch_size == 50 && one.train.optimizer.lr == 0.02));
  const RunConfig four = loaded("quick_averaged");
  CHECK((four.train.total_iterations == 40'000 && four.train.batch_size == 16));
  CHECK((four.train.has_inner_optimizer && four.train.inner_optimizer.lr == 0.015));
  CHECK(four.train.optimizer.lr == 1.0);
  CHECK(four.train.layers == one.train.layers);
}

}  // namespace
}  // namespace paceline
