#include "tools/schedule.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <map>
#include <memory>

#include "common/config/command_line.h"
#include "common/config/load.h"
#include "common/network/network.h"
#include "common/schedule/buckets.h"
#include "common/schedule/check.h"
#include "common/schedule/print.h"
#include "common/schedule/run_plan.h"

namespace paceline {

int schedule_plan(const ScheduleOptions& options, std::ostream& out, std::ostream& err) {
  const auto refuse = [&err](const std::string& why) {
    err << why << "\n";
    return kExitUsage;
  };
  const Result<RunConfig> config = load_config(options.path, options.overrides, LoadFor::kReading);
  if (!config) return refuse(config.status().message());
  if (config->exchange.kind != ExchangeKind::kAllreduce) {
    return refuse("paceline schedule: " + options.path + ": exchange.kind is server, expected allreduce");
  }
  const Result<NetworkSpec> network = build_network(*config);
  if (!network) return refuse("paceline schedule: " + network.status().message());
  const std::vector<Range> cut = schedule::buckets(network->layout, config->exchange.bucket_bytes);
  out << network->layout.size() << " floats in " << cut.size() << " bucket(s), " << config->cluster.nodes
      << " node(s), algorithm " << name_of(config->exchange.algorithm) << "\n";
  std::map<std::int64_t, std::size_t> printed;  // buckets of one size have one plan
  for (std::size_t b = 0; b < cut.size(); ++b) {
    out << "\nbucket " << b << ": floats " << cut[b].begin << ".." << cut[b].end << ", ";
    const auto [same, is_new] = printed.emplace(cut[b].size(), b);
    if (!is_new) {
      out << "as bucket " << same->second << "\n";
      continue;
    }
    const Result<schedule::Plan> plan = schedule::plan_of_run(*config, cut[b].size());
    if (!plan) return refuse("paceline schedule: " + plan.status().message());
    if (const Status checked = schedule::check(*plan); !checked.is_ok()) {
      return refuse("paceline schedule: " + checked.message());
    }
    out << "checked\n" << to_string(*plan);
  }
  return kExitOk;
}

void add_schedule(CLI::App& app, int& exit_status) {
  CLI::App* command = app.add_subcommand("schedule", "Print the plan of a run's all-reduce, checked");
  const auto options = std::make_shared<ScheduleOptions>();
  command->add_option("FILE", options->path, "The configuration")->required();
  command->add_option("key.path=value", options->overrides, "Overrides, as the daemons take them");
  command->callback([options, &exit_status] { exit_status = schedule_plan(*options, std::cout, std::cerr); });
}

}  // namespace paceline
