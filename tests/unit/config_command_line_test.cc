// The command lines of the daemons and of check-config: what they accept, and the one line they refuse with.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "common/config/command_line.h"
#include "common/config/daemon_options.h"
#include "common/config/load.h"
#include "common/config/resume_keeps.h"
#include "tests/unit/temp_folder.h"
#include "tools/check_config.h"

namespace paceline {
namespace {

using Catch::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

struct Parsed {
  DaemonCommandLine line;
  std::string out;
  std::string err;
};

Parsed parsed(DaemonRole role, std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "program");
  std::ostringstream out;
  std::ostringstream err;
  DaemonCommandLine line =
      parse_daemon_command_line(role, static_cast<int>(arguments.size()), arguments.data(), out, err);
  return {std::move(line), out.str(), err.str()};
}

std::string bsp() { return std::string(PACELINE_CONFIGS_DIR) + "/bsp.yaml"; }

TEST_CASE("a_daemon_takes_its_file_its_index_and_overrides_in_any_order") {
  const Parsed server =
      parsed(DaemonRole::kServer, {"c.yaml", "--shard", "2", "run.seed=2", "emulate.slowdown=[1, 2]"});
  REQUIRE_FALSE(server.line.exit_status);
  CHECK(server.line.options.config_path == "c.yaml");
  CHECK(server.line.options.index == 2);
  CHECK(server.line.options.force == Force::kNo);
  CHECK(server.line.options.overrides == std::vector<std::string>{"run.seed=2", "emulate.slowdown=[1, 2]"});

  const Parsed worker =
      parsed(DaemonRole::kWorker, {"--node", "3", "c.yaml", "run.seed=2", "--force", "run.name=x"});
  REQUIRE_FALSE(worker.line.exit_status);
  CHECK(worker.line.options.index == 3);
  CHECK(worker.line.options.force == Force::kOnce);
  CHECK(worker.line.options.overrides.size() == 2);

  CHECK(parsed(DaemonRole::kServer, {"--force", "c.yaml", "--force"}).line.options.force == Force::kTwice);
  CHECK(parsed(DaemonRole::kServer, {"c.yaml"}).line.options.index == 0);
  CHECK(parsed(DaemonRole::kServer, {"c.yaml", "--ended-programs", "7"}).line.options.ended_programs == 7);
  CHECK_FALSE(parsed(DaemonRole::kServer, {"c.yaml"}).line.options.resume);
  CHECK(parsed(DaemonRole::kServer, {"c.yaml", "--resume"}).line.options.resume);
  CHECK(parsed(DaemonRole::kWorker, {"c.yaml", "--node", "0", "--resume"}).line.options.resume);
}

TEST_CASE("help_and_version_end_well_and_usage_errors_end_with_2_and_one_line") {
  for (const DaemonRole role : {DaemonRole::kServer, DaemonRole::kWorker}) {
    const Parsed help = parsed(role, {"--help"});
    CHECK(help.line.exit_status == 0);
    CHECK_THAT(help.out, Contains("CONFIG") && Contains("--force"));
    const Parsed version = parsed(role, {"--version"});
    CHECK(version.line.exit_status == 0);
    CHECK_THAT(version.out, Contains(project_version()));
  }
  for (const Parsed& wrong :
       {parsed(DaemonRole::kServer, {}), parsed(DaemonRole::kServer, {"c.yaml", "--shard", "x"}),
        parsed(DaemonRole::kServer, {"c.yaml", "--node", "1"}), parsed(DaemonRole::kWorker, {"c.yaml"}),
        parsed(DaemonRole::kWorker, {"c.yaml", "--node", "-1"}),
        parsed(DaemonRole::kServer, {"c.yaml", "--resume", "--force"}),
        parsed(DaemonRole::kWorker, {"--node", "1"})}) {
    CHECK(wrong.line.exit_status == 2);
    CHECK(wrong.out.empty());
    CHECK_THAT(wrong.err, StartsWith("paceline-") && EndsWith("\n"));
    CHECK(std::count(wrong.err.begin(), wrong.err.end(), '\n') == 1);
  }
}

TEST_CASE("a_daemon_needs_a_run_directory_and_an_index_that_the_cluster_has") {
  DaemonOptions options{.config_path = bsp(), .overrides = {}, .index = 3};
  CHECK_THAT(load_daemon_config(DaemonRole::kWorker, options).status().message(),
             Contains("run.out: no run directory"));
  options.overrides = {"run.out=/tmp/run"};
  CHECK(load_daemon_config(DaemonRole::kWorker, options).is_ok());
  CHECK_THAT(load_daemon_config(DaemonRole::kServer, options).status().message(),
             StartsWith("command line: --shard: no such shard, got 3, expected 0 to 0"));
  options.index = 4;
  CHECK_THAT(load_daemon_config(DaemonRole::kWorker, options).status().message(),
             StartsWith("command line: --node: no such node, got 4, expected 0 to 3"));
  options.overrides = {"run.out=/tmp/run", "cluster.shards=2",
                       "cluster.endpoints=['ipc:///tmp/a', 'ipc:///tmp/b']"};
  options.ended_programs = 7;
  for (options.index = 0; options.index < 2; ++options.index) {
    const Status received = load_daemon_config(DaemonRole::kServer, options).status();
    CHECK_THAT(received.message(), options.index == 0
                                       ? Contains("")
                                       : Contains("--ended-programs: got it for shard 1 of 1 replica(s)"));
    CHECK(received.is_ok() == (options.index == 0));
  }
}

TEST_CASE("an_unknown_subcommand_is_named_with_those_that_there_are") {
  const auto refused = [](std::vector<const char*> arguments) {
    CLI::App app("", "tool");
    app.require_subcommand(1);
    app.add_subcommand("report");
    app.add_subcommand("data")->require_subcommand(1);
    std::ostringstream out;
    std::ostringstream err;
    CHECK(parse_command_line(app, static_cast<int>(arguments.size()), arguments.data(), out, err) == 2);
    return err.str();
  };
  CHECK(refused({"tool", "reprot", "runs/a"}) ==
        "tool: no such subcommand, got reprot, expected report, data (see tool --help)\n");
  CHECK_THAT(refused({"tool"}), StartsWith("tool: A subcommand is required"));
  CHECK_THAT(refused({"tool", "report", "runs/a"}), !Contains("no such subcommand"));
  CHECK_THAT(refused({"tool", "--jobs", "3"}), !Contains("no such subcommand"));
}

TEST_CASE("check_config_says_ok_or_why_not") {
  std::ostringstream out;
  std::ostringstream err;
  CHECK(check_config({.path = bsp()}, out, err) == 0);
  CHECK(out.str() == bsp() + ": ok\nlearning rate 0.0005, after 10 versions of warm-up from 5e-05\n");
  const testing::TempFolder folder;
  const std::string bare = (folder / "run.yaml").string();
  std::ofstream(bare) << "run: {name: mine}\n";
  std::ostringstream without_data;
  CHECK(check_config({.path = bare}, without_data, err) == 0);
  CHECK(without_data.str() == bare + ": ok, but no data.path: only for a task of your own\n");
  CHECK(check_config({.path = bsp(), .overrides = {"sync.threshold=3"}}, out, err) == 2);
  CHECK_THAT(err.str(), StartsWith("command line: sync.threshold: policy bsp does not use it"));
  CHECK(check_config({}, out, err) == 2);
  CHECK(check_config({.path = bsp(), .get = "sync.treshold"}, out, err) == 2);
  std::ostringstream value;
  CHECK(check_config({.path = bsp(), .overrides = {"run.name=mine"}, .get = "run.name"}, value, err) == 0);
  CHECK(check_config({.path = bsp(), .get = "cluster.nodes"}, value, err) == 0);
  CHECK(value.str() == "mine\n4\n");
}

TEST_CASE("check_config_names_what_a_resume_may_not_change_by_the_key_that_was_given") {
  const testing::TempFolder folder;
  const std::string mine = (folder / "mine.yaml").string();
  std::ofstream(mine) << "cluster: {nodes: 2, threads_per_node: 1}\npipeline: {stages: 2, micro_batches: 4}\n"
                         "train: {total_iterations: 80}\n";
  std::ostringstream written;
  std::ostringstream err;
  REQUIRE(check_config({.path = mine, .print = true}, written, err) == 0);
  const std::string recorded = (folder / "config.yaml").string();
  std::ofstream(recorded) << written.str();
  std::ostringstream out;
  const auto status = [&](std::vector<std::string> overrides) {
    err.str("");
    return check_config({.path = recorded, .overrides = std::move(overrides), .resume = true}, out, err);
  };
  CHECK(status({"pipeline.micro_batches=4", "pipeline.rematerialize=on", "run.name=other"}) == kExitOk);
  CHECK(status({"pipeline.stages=1"}) == kExitOtherConfiguration);
  CHECK(err.str() ==
        "command line: a resume keeps what the run began with: pipeline.stages: got 1, expected 2\n");
  CHECK(status({"pipeline.micro_batches=2", "pipeline.schedule=1f1b"}) == kExitOtherConfiguration);
  CHECK_THAT(
      err.str(),
      Contains(": pipeline.micro_batches: got 2, expected 4; pipeline.schedule: got 1f1b, expected gpipe\n"));
  CHECK(status({"pipeline.micro_batches=none"}) == kExitUsage);  // which is no value of it
}

TEST_CASE("check_config_names_what_follows_from_what_a_resume_may_change") {
  const testing::TempFolder folder;
  const auto with = [](const std::vector<std::string>& overrides) {
    return parse_config(
        "train: {batch_size: 32, optimizer: {schedule: {warmup_epochs: 0.5}}}\n"
        "cluster: {nodes: 2, threads_per_node: 1}\ndata: {train_samples: 640}\n",
        "run.yaml", overrides);
  };
  const std::string recorded = (folder / "config.yaml").string();
  std::ofstream(recorded) << to_yaml(with({}).value());
  CHECK(check_resume_keeps(recorded, std::vector<std::string>{"data.train_samples=660"}).is_ok());
  CHECK(check_resume_keeps(recorded, std::vector<std::string>{"data.train_samples=1280"}).message() ==
        "command line: a resume keeps what the run began with: train.optimizer.schedule.warmup_versions: got "
        "10, "
        "expected 5");
  CHECK(check_resume_keeps(recorded, std::vector<std::string>{"data.train_samples=1280",
                                                              "train.optimizer.schedule.warmup_versions=5"})
            .is_ok());
}

TEST_CASE("check_config_reads_the_model_that_a_run_would_begin_with") {
  const testing::TempFolder folder;
  const std::string other = (folder / "other").string();
  std::ofstream(other) << "no model at all, and long enough";
  std::ostringstream out;
  std::ostringstream err;
  CheckConfigOptions options{.path = bsp(), .overrides = {"train.init_from=" + other}};
  CHECK(check_config(options, out, err) == kExitOk);
  options.init = true;
  CHECK(check_config(options, out, err) == kExitUsage);
  CHECK_THAT(err.str(),
             StartsWith("paceline check-config: train.init_from: " + other + ": not a paceline model"));
  const std::string bare =
      (folder / "run.yaml").string();  // of a loop of one's own, whose model is not known
  std::ofstream(bare) << "run: {name: mine}\n";
  options.path = bare;
  CHECK(check_config(options, out, err) == kExitOk);
}

TEST_CASE("what_check_config_prints_is_the_effective_configuration_and_loads_again") {
  std::ostringstream out;
  std::ostringstream err;
  REQUIRE(check_config({.path = bsp(), .overrides = {"run.seed=9"}, .print = true}, out, err) == 0);
  const Result<RunConfig> again = parse_config(out.str(), "printed", {});
  REQUIRE(again.is_ok());
  const std::vector<std::string> overrides{"run.seed=9"};
  CHECK(*again == *load_config(bsp(), overrides));
  std::ostringstream reference;
  CHECK(check_config({.reference = true}, reference, err) == 0);
  CHECK(reference.str() == reference_yaml());
}

}  // namespace
}  // namespace paceline
