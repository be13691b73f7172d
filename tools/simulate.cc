#include "tools/simulate.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <memory>

#include "common/config/command_line.h"
#include "common/config/load.h"
#include "common/ticks.h"
#include "simulate/run.h"

namespace paceline {
namespace {

int refused_simulation(std::ostream& err, const std::string& message) {
  err << "paceline simulate: " << message << "\n";
  return kExitUsage;
}

// "DIR: ok, 16000 iterations in 412.8 s of virtual time, simulated in 0.1 s"
std::string said(const SimulateOptions& options, const simulate::Outcome& outcome, double real_seconds) {
  const RunSummary& s = outcome.summary;
  char numbers[160];
  std::snprintf(numbers, sizeof numbers,
                "%lld iterations in %.3f s of virtual time, simulated in %.1f s (%lld events)",
                static_cast<long long>(s.iterations), s.wall_seconds, real_seconds,
                static_cast<long long>(outcome.events));
  return options.out + ": " + s.status + (s.reason.empty() ? "" : " (" + s.reason + ")") + ", " + numbers;
}

}  // namespace

int run_simulate(const SimulateOptions& options, std::ostream& out, std::ostream& err) {
  Result<RunConfig> config = load_config(options.config_path, options.overrides, LoadFor::kReading);
  if (!config) {
    err << config.status().message() << "\n";
    return kExitUsage;
  }
  config->run.out = options.out;
  if (const Status ready = simulate::check_directory(options.out, options.force); !ready.is_ok()) {
    return refused_simulation(err, ready.message());
  }
  const Ticks began = steady_now();
  const Result<simulate::SimulatedRun> run = simulate::simulate(
      *config, options.trace.empty() ? std::nullopt : std::optional<std::filesystem::path>(options.trace));
  if (!run) {
    // What the configuration lacks for a simulation has its file in front, as every fault of it.
    const std::string& why = run.status().message();
    const bool of_config = why.starts_with("simulate.") || why.starts_with("exchange.") ||
                           why.starts_with("pipeline.") || why.starts_with("sync.") ||
                           why.starts_with("run.") || why.starts_with("data.") || why.starts_with("train.");
    return refused_simulation(err, (of_config ? options.config_path + ": " : "") + run.status().message());
  }
  const double seconds = to_seconds(steady_now() - began);
  if (const Status written = simulate::write_directory(options.out, *run); !written.is_ok()) {
    err << "paceline simulate: " << written.message() << "\n";
    return kExitFailedRun;
  }
  out << said(options, run->outcome, seconds) << "\n";
  return run->outcome.summary.status == "ok" ? kExitOk : kExitFailedRun;
}

void add_simulate(CLI::App& app, int& exit_status) {
  CLI::App* command = app.add_subcommand("simulate", "Run a configuration in virtual time");
  const auto options = std::make_shared<SimulateOptions>();
  command->add_option("CONFIG", options->config_path, "The run's YAML file")->required();
  command->add_option("--out", options->out, "The run directory")->required();
  add_force(*command, options->force,
            "Use the directory even when it already holds a run; given twice, one that ended well");
  command->add_option("--trace", options->trace, "Take computations and costs from this real run");
  command->add_option("key.path=value", options->overrides, "Overrides, as the daemons take them");
  command->callback([options, &exit_status] { exit_status = run_simulate(*options, std::cout, std::cerr); });
}

}  // namespace paceline
