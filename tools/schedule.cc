#include "tools/schedule.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>

#include "common/config/command_line.h"
#include "common/config/load.h"
#include "common/network/network.h"
#include "common/schedule/planners.h"
#include "tools/number_option.h"
#include "tools/schedule_sums.h"

namespace paceline {
namespace {

const std::vector<schedule::Algorithm> kAlgorithms = {
    schedule::Algorithm::kRing,  schedule::Algorithm::kHalvingDoubling, schedule::Algorithm::kBinaryBlocks,
    schedule::Algorithm::kTorus, schedule::Algorithm::kHierarchical,    schedule::Algorithm::kDirect,
    schedule::Algorithm::kTree};

// What a plan may have in memory: rows grow as the square of ranks, and what the checker keeps as their cube.
constexpr int kRanksMax = 1024;
constexpr std::int64_t kBytesMax = std::int64_t{1} << 30;

std::optional<schedule::Algorithm> named(const std::string& name) {
  for (const schedule::Algorithm algorithm : kAlgorithms) {
    if (name == schedule::name_of(algorithm)) return algorithm;
  }
  return std::nullopt;
}

}  // namespace

int schedule_plan(const ScheduleOptions& options, std::ostream& out, std::ostream& err) {
  const auto refuse = [&err](const std::string& why) {
    err << why << "\n";
    return kExitUsage;
  };
  const Result<RunConfig> config = load_config(options.path, options.overrides, LoadFor::kReading);
  if (!config) return refuse(config.status().message());
  if (config->exchange.kind != ExchangeKind::kAllreduce && !config->pipeline.enabled()) {
    return refuse("paceline schedule: " + options.path +
                  ": exchange.kind is server, expected allreduce, or pipeline.stages above 1");
  }
  const Result<NetworkSpec> network = build_network(*config);
  if (!network) return refuse("paceline schedule: " + network.status().message());
  if (config->pipeline.enabled() && !options.table.ranks.empty()) {
    return refuse("paceline schedule: --ranks: got it with pipeline.stages above 1, expected stages: 1");
  }
  if (config->pipeline.enabled()) {
    const Status printed = print_pipeline(options.cut, *config, *network, out);
    return printed.is_ok() ? kExitOk : refuse("paceline schedule: " + printed.message());
  }
  if (options.cut.measure || !options.cut.speeds.empty()) {
    return refuse(
        "paceline schedule: --measure and --speeds: got them with pipeline.stages: 1, expected more");
  }
  if (!options.table.ranks.empty()) {
    if (config->exchange.shard_optimizer) {
      return refuse(
          "paceline schedule: --ranks: sums and copies are not planned apart there, got "
          "exchange.shard_optimizer true, expected false");
    }
    ScheduleTable table = options.table;
    std::sort(table.ranks.begin(), table.ranks.end());
    if (table.bytes.empty())
      table.bytes = {network->layout.size() * static_cast<std::int64_t>(sizeof(float))};
    for (const std::string& name : options.algorithms) table.algorithms.push_back(named(name).value());
    if (table.algorithms.empty()) table.algorithms = kAlgorithms;
    const Status printed = print_table(table, *config, out);
    return printed.is_ok() ? kExitOk : refuse("paceline schedule: " + printed.message());
  }
  const Status printed = print_sums(*config, network->layout, out);
  return printed.is_ok() ? kExitOk : refuse("paceline schedule: " + printed.message());
}

void add_schedule(CLI::App& app, int& exit_status) {
  CLI::App* command =
      app.add_subcommand("schedule", "Print the plan of a run's all-reduce or pipeline, checked");
  const auto options = std::make_shared<ScheduleOptions>();
  command->add_option("FILE", options->path, "The configuration")->required();
  command->add_option("SETTING", options->overrides, "key.path=value: overrides, as the daemons take them");
  command->add_flag("--measure", options->cut.measure,
                    "Of a pipeline: time the layers here, and cut it by that");
  command->add_option("--speeds", options->cut.speeds, "With it: how fast each stage's node is, as 1,1,2")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(number_option([](double x) { return x > 0.0; }, "a number above 0"));
  command
      ->add_option("--ranks", options->table.ranks,
                   "Of an all-reduce: a table of times for so many ranks, as 16,64")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, kRanksMax));
  CLI::Option* const ranks = command->get_option("--ranks");
  command
      ->add_option("--bytes", options->table.bytes,
                   "With it: of so many bytes, as 4KiB,100MB; else the model's")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->needs(ranks)
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
      ->check(CLI::Range(std::int64_t{4}, kBytesMax));
  std::string algorithms;
  for (const schedule::Algorithm algorithm : kAlgorithms) {
    algorithms += (algorithms.empty() ? "" : ", ") + std::string(schedule::name_of(algorithm));
  }
  const auto known = [algorithms](const std::string& name) {
    return named(name) ? "" : "got " + name + ", expected of " + algorithms;
  };
  command->add_option("--algorithms", options->algorithms, "With it: of these, as ring,torus; else all")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->needs(ranks)
      ->check(CLI::Validator(known, ""));
  command->callback([options, &exit_status] { exit_status = schedule_plan(*options, std::cout, std::cerr); });
}

}  // namespace paceline
