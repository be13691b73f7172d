#include "tools/simulate.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <string>

#include "common/config/command_line.h"
#include "common/config/load.h"
#include "common/printed.h"
#include "common/report/phases_csv.h"
#include "common/ticks.h"
#include "simulate/run.h"

namespace paceline {
namespace {

int refused_simulation(std::ostream& err, const std::string& message) {
  err << "paceline simulate: " << message << "\n";
  return kExitUsage;
}

// "DIR: ok, 16000 iterations in 412.8 s of virtual time, simulated in 0.1 s"
std::string closing_line(const SimulateOptions& options, const simulate::Outcome& outcome,
                         double real_seconds) {
  const RunSummary& s = outcome.summary;
  char numbers[160];
  std::snprintf(numbers, sizeof numbers,
                "%lld iterations in %.3f s of virtual time, simulated in %.1f s (%lld events)",
                static_cast<long long>(s.iterations), s.wall_seconds, real_seconds,
                static_cast<long long>(outcome.events));
  return options.out + ": " + s.status + (s.reason.empty() ? "" : " (" + s.reason + ")") + ", " + numbers;
}

// As a node's log says it (worker/train/timed_rounds.h), of each whose mini-batches all were too long. By their mean,
// too, since a histogram's shortest is off by half a bucket.
void warn_of_short_rounds(const RunConfig& config, const simulate::Outcome& outcome, const std::string& where,
                          std::ostream& err) {
  if (!config.train.local_time) return;
  const auto ms = [](std::int64_t ns) { return printed("%.3gms", static_cast<double>(ns) * 1e-6); };
  const std::int64_t time = config.train.local_time->count();
  std::map<NodeId, PhaseTotals> nodes;
  for (const WorkerPhases& worker : outcome.phases) merge(nodes[worker.worker.node], worker.totals);
  for (const auto& [node, totals] : nodes) {
    const PhaseStat& computed = totals[Phase::kComputeGrads];
    const std::int64_t mean = computed.count == 0 ? 0 : computed.total_ns / computed.count;
    if (mean <= time || quantile_ns(computed, 0.0) <= time) continue;
    err << where << ": train.local_time: shorter than a mini-batch of node " << to_string(node) << ", got "
        << ms(time) << ", expected some " << ms(mean) << ": each of its rounds has one\n";
  }
}

}  // namespace

int run_simulate(const SimulateOptions& options, std::ostream& out, std::ostream& err) {
  std::vector<std::string> notes;
  Result<RunConfig> config = load_config(options.config_path, options.overrides, LoadFor::kReading, &notes);
  for (const std::string& note : notes) err << note << "\n";
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
  warn_of_short_rounds(run->assumed, run->outcome,
                       source_of(options.config_path, options.overrides, "train.local_time"), err);
  out << closing_line(options, run->outcome, seconds) << "\n";
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
  command->add_option("SETTING", options->overrides, "key.path=value: overrides, as the daemons take them");
  command->callback([options, &exit_status] { exit_status = run_simulate(*options, std::cout, std::cerr); });
}

}  // namespace paceline
