#include "tools/speedup.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "common/config/command_line.h"
#include "common/config/load.h"
#include "common/files/atomic_file.h"
#include "common/process/line_writer.h"
#include "common/process/machine.h"
#include "common/report/csv.h"
#include "common/report/curve.h"
#include "common/report/phases_csv.h"
#include "common/report/read_run.h"
#include "sweep/grid.h"
#include "sweep/speedup.h"
#include "tools/number_option.h"
#include "tools/speedup_page.h"
#include "tools/text_table.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using sweep::RoundsNeeded;

template <typename T>
std::string joined(const std::vector<T>& values) {
  std::string all;
  for (const T& value : values) all += (all.empty() ? "" : ",") + std::to_string(value);
  return all;
}

std::string number(const std::optional<double>& value) {
  if (!value) return "";
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", *value);
  return text;
}

// Settings of them are in the configuration that axes are made of.
constexpr const char* kIterations = "train.total_iterations=";
constexpr const char* kEpochs = "train.total_epochs=";

// Settings that are the command's own. Errors: kInvalidArgument naming one that was given, and what it stands for.
Status check_settings(const std::vector<std::string>& settings) {
  struct Own {
    const char* key;
    const char* by;
  };
  constexpr Own kOwn[] = {{"train.local_steps=", "by --local-steps"},
                          {"train.eval_every_clocks=", "by --evaluate-every"},
                          {"cluster.nodes=", "by --workers"},
                          {"run.target_accuracy=", "by --target"},
                          {"simulate.mode=", "as training"}};
  for (const std::string& setting : settings) {
    for (const Own& own : kOwn) {
      if (setting.starts_with(own.key)) {
        return invalid_argument(setting + ": each run gets this key " + own.by);
      }
    }
  }
  return Status::ok();
}

// Rounds are counted, whatever one takes. What a configuration lacks the runs have: a mini-batch that takes a second.
constexpr const char* kMiniBatch = "{simulate.compute.distribution: constant, simulate.compute.mean: 1s}";
bool timed(const RunConfig& config) {
  return config.emulate.base_step || config.train.local_time || config.simulate.compute.mean ||
         config.simulate.compute.distribution != ComputeKind::kEmulated;
}

// Runs end at the accuracy, with as many whole rounds of each worker as there are iterations for.
std::vector<std::string> axes_of(const SpeedupOptions& options, const RunConfig& config) {
  std::string rounds;
  for (const std::int64_t steps : options.local_steps) {
    const std::int64_t clocks = std::max<std::int64_t>(1, options.evaluate_every / steps);
    const std::int64_t iterations = (config.train.total_iterations + steps - 1) / steps * steps;
    rounds += (rounds.empty() ? "{" : ",{") + std::string("train.local_steps: ") + std::to_string(steps) +
              ", train.eval_every_clocks: " + std::to_string(clocks) +
              ", train.total_iterations: " + std::to_string(iterations) + "}";
  }
  std::vector<std::string> axes = options.sweep.axes;
  std::erase_if(axes, [](const std::string& axis) {
    return axis.starts_with(kIterations) || axis.starts_with(kEpochs);
  });
  axes.emplace_back("simulate.mode=training");
  if (!timed(config)) axes.emplace_back(kMiniBatch);
  axes.push_back("run.target_accuracy=" + csv::text_of(*options.sweep.target));
  axes.push_back("cluster.nodes=" + joined(options.workers));
  axes.push_back(rounds);
  return axes;
}

bool is_serial(const RoundsNeeded& run) { return run.workers == 1 && run.local_steps == 1; }

// Errors: those of what it reads; kFailedPrecondition one worker alone never got there.
Result<std::vector<RoundsNeeded>> read_runs(const SpeedupOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(const sweep::Grid grid, sweep::Grid::read("", "", options.sweep.axes));
  std::vector<RoundsNeeded> runs;
  for (std::size_t point = 0; point < grid.points(); ++point) {
    const fs::path run = fs::path(options.sweep.out) / grid.folder(point);
    PACELINE_ASSIGN_OR_RETURN(const RunConfig config,
                              load_config((run / "config.yaml").string(), {}, LoadFor::kReading));
    PACELINE_ASSIGN_OR_RETURN(const std::vector<CurveRow> curve, read_curve(run));
    const sweep::Evaluated reached = sweep::evaluated(curve, *options.sweep.target);
    const RoundsNeeded needed{config.cluster.cluster().workers(), config.train.local_steps, reached.rounds,
                              reached.at_first};
    if (is_serial(needed) && !needed.rounds) {
      return failed_precondition("one worker alone never reaches " + number(options.sweep.target) +
                                 " within train.total_iterations, got " + number(reached.best) +
                                 " at best; give it more of them, or another --target");
    }
    runs.push_back(needed);
  }
  return runs;
}

std::string csv_of_runs(std::span<const RoundsNeeded> runs, std::int64_t serial) {
  std::string text = "workers,local_steps,rounds,gain,at_first_evaluation\n";
  for (const RoundsNeeded& run : runs) {
    text += std::to_string(run.workers) + "," + std::to_string(run.local_steps) + "," +
            (run.rounds ? std::to_string(*run.rounds) : "") + "," + number(speedup(serial, run, 0.0)) + "," +
            (run.at_first_evaluation ? "true" : "false") + "\n";
  }
  return text;
}

// A row for each number of workers and cost of an exchange.
std::string csv_of_costs(const SpeedupOptions& options, std::span<const RoundsNeeded> runs,
                         std::int64_t serial) {
  std::string text = "workers,exchange,naive,best,best_local_steps\n";
  for (const std::int64_t workers : options.workers) {
    for (const double exchange : options.exchange) {
      const RoundsNeeded* const best = best_run(serial, runs, workers, exchange);
      text += std::to_string(workers) + "," + number(exchange) + "," +
              number(sweep::naive_speedup(workers, exchange)) + "," +
              (best == nullptr
                   ? ","
                   : number(speedup(serial, *best, exchange)) + "," + std::to_string(best->local_steps)) +
              "\n";
    }
  }
  return text;
}

TextTable gains(const SpeedupOptions& options, std::span<const RoundsNeeded> runs, std::int64_t serial) {
  TextTable table;
  table.title = "gain, N / (local steps x rounds), by workers (down) and local steps";
  table.columns = {{"workers", Align::kLeft}};
  for (const std::int64_t steps : options.local_steps) table.columns.push_back({std::to_string(steps)});
  for (const std::int64_t workers : options.workers) {
    std::vector<TextCell> row{{std::to_string(workers)}};
    for (const RoundsNeeded& run : runs) {
      if (run.workers != workers) continue;
      row.push_back(
          {!run.rounds ? "never" : number(speedup(serial, run, 0.0)) + (run.at_first_evaluation ? "*" : "")});
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

TextTable costs(const SpeedupOptions& options, std::span<const RoundsNeeded> runs, std::int64_t serial) {
  TextTable table;
  table.title =
      "speed-up by what an exchange costs, in mini-batches: naive; best of the runs (its local steps)";
  table.columns = {{"workers", Align::kLeft}};
  for (const double exchange : options.exchange) table.columns.push_back({"S = " + number(exchange)});
  for (const std::int64_t workers : options.workers) {
    std::vector<TextCell> row{{std::to_string(workers)}};
    for (const double exchange : options.exchange) {
      const RoundsNeeded* const best = best_run(serial, runs, workers, exchange);
      row.push_back({number(sweep::naive_speedup(workers, exchange)) +
                     (best == nullptr ? "; never"
                                      : "; " + number(speedup(serial, *best, exchange)) + " (" +
                                            std::to_string(best->local_steps) + ")")});
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

// Where evaluations are too far apart for the gains to be told; else empty.
std::string too_coarse(const SpeedupOptions& options, std::span<const RoundsNeeded> runs) {
  const auto early = [](const RoundsNeeded& run) { return run.at_first_evaluation; };
  if (std::none_of(runs.begin(), runs.end(), early)) return "";
  const bool serial = std::any_of(runs.begin(), runs.end(),
                                  [&](const RoundsNeeded& run) { return is_serial(run) && early(run); });
  return std::string("* there at its first evaluation, so it may have needed far fewer rounds") +
         (serial ? ": as one worker alone was, no gain here can be told" : "") +
         "; evaluate more often, --evaluate-every " + std::to_string(options.evaluate_every) +
         " was too coarse\n";
}

// Where runs never reached the accuracy: why, and what to raise; else empty. Which of the two
// reasons a run has depends on its number of workers alone.
std::string why_never(const RunConfig& config, std::span<const RoundsNeeded> runs, std::int64_t serial) {
  const std::int64_t iterations = config.train.total_iterations;
  const std::optional<std::int64_t> lacking = sweep::iterations_lacking(serial, runs, iterations);
  const bool never_gains = std::any_of(runs.begin(), runs.end(), [&](const RoundsNeeded& run) {
    return sweep::without_gain(serial, run, iterations);
  });
  std::string text;
  if (never_gains) {
    text += (lacking ? "never, of up to " + std::to_string(iterations / serial) + " workers" : "never") +
            ": not with as many mini-batches of each worker as one alone needs, so without gain\n";
  }
  if (lacking) {
    text += std::string(never_gains ? "never, of more workers" : "never") +
            ": not within train.total_iterations, " + std::to_string(iterations) +
            ", of which each worker of a run has its share; with " + kIterations + std::to_string(*lacking) +
            ", and another --out, each has the " + std::to_string(serial) + " that one alone needs\n";
  }
  return text;
}

struct Measured {
  sweep::MeasuredTimes times;
  std::int64_t workers = 0;
  double exchange() const { return times.exchange / times.mini_batch; }
};

// What an exchange of the run in this folder took. It says so of its own workers' number alone: with more of them a
// server has more to do at a time. `planned`: what the model's runs are of.
Result<Measured> read_measured(const std::string& folder, const RunConfig& planned) {
  if (const Result<RunSummary> run = read_finished(folder); !run) return run.status();
  PACELINE_ASSIGN_OR_RETURN(const PhasesThere phases, read_phases_there(folder));
  PACELINE_ASSIGN_OR_RETURN(const RunConfig config,
                            load_config((fs::path(folder) / "config.yaml").string(), {}, LoadFor::kReading));
  const auto refused = [&](const std::string& expected) {
    return failed_precondition(folder + ": expected " + expected);
  };
  if (config.sync.policy != PolicyKind::kBsp || config.exchange.kind != ExchangeKind::kServer) {
    return refused("sync.policy: bsp and exchange.kind: server, where nothing is hidden");
  }
  if (config.pipeline.enabled()) return refused("whole models on its nodes, pipeline.stages: 1");
  if (config.train.local_time) return refused("rounds that do not end by time, local_time: null");
  if (config.train.model != planned.train.model || config.train.layers != planned.train.layers ||
      config.train.batch_size != planned.train.batch_size) {
    return refused("the train.model, train.layers and train.batch_size of the runs that it is compared with");
  }
  const auto times = sweep::measured_times(phases.workers);
  if (!times) return refused("a run that trained, its workers report no round");
  return Measured{*times, config.cluster.cluster().workers()};
}

// For whoever has that cluster: what to take.
void print_measured(const std::string& folder, const Measured& measured, const SpeedupOptions& options,
                    std::span<const RoundsNeeded> runs, std::int64_t serial, std::ostream& out) {
  const double exchange = measured.exchange();
  out << folder << ": an exchange of " << measured.workers << " workers takes "
      << number(measured.times.exchange) << " s, a mini-batch " << number(measured.times.mini_batch)
      << " s: S = " << number(exchange) << "\n";
  if (std::count(options.workers.begin(), options.workers.end(), measured.workers) == 0) {
    out << "  --workers has no " << measured.workers << ", so nothing says which local steps suit it\n";
    return;
  }
  const RoundsNeeded* const best = best_run(serial, runs, measured.workers, exchange);
  if (best == nullptr) {
    out << "  of " << measured.workers << " workers no run reached the accuracy\n";
    return;
  }
  out << "  " << measured.workers << " workers: " << best->local_steps << " local steps, "
      << number(speedup(serial, *best, exchange)) << " times one worker; naive "
      << number(sweep::naive_speedup(measured.workers, exchange)) << "\n";
}

int failed(std::ostream& err, const Status& why, int status) {
  err << "paceline speedup: " << why.message() << "\n";
  return status;
}

}  // namespace

int run_speedup(const SpeedupOptions& given, std::ostream& out, std::ostream& err) {
  SpeedupOptions options = given;
  const bool has_serial = std::count(options.workers.begin(), options.workers.end(), 1) > 0 &&
                          std::count(options.local_steps.begin(), options.local_steps.end(), 1) > 0;
  if (!has_serial) {
    return failed(err,
                  invalid_argument("--workers and --local-steps: got none that is 1, expected both to have a "
                                   "1: one worker alone is what the others are compared with"),
                  kExitUsage);
  }
  if (const Status own = check_settings(options.sweep.axes); !own.is_ok()) {
    return failed(err, own, kExitUsage);
  }
  const Result<RunConfig> config =
      load_config(options.sweep.config_path, options.sweep.axes, LoadFor::kReading);
  if (!config) return failed(err, config.status(), kExitUsage);
  if (!config->train.has_inner_optimizer || config->cluster.threads_per_node != 1) {
    return failed(err,
                  invalid_argument(options.sweep.config_path + ": expected a train.inner_optimizer, and "
                                                               "cluster.threads_per_node: 1"),
                  kExitUsage);
  }
  std::optional<Measured> measured;
  if (!options.measured.empty()) {
    const Result<Measured> read = read_measured(options.measured, *config);
    if (!read) return failed(err, Status(read.status()).with_context("--measured"), kExitUsage);
    measured = *read;
    options.exchange.push_back(measured->exchange());
    std::sort(options.exchange.begin(), options.exchange.end());
  }
  options.sweep.axes = axes_of(options, *config);
  options.sweep.command = "paceline speedup";
  if (const int swept = run_sweep(options.sweep, out, err); swept == kExitUsage) return swept;
  const Result<std::vector<RoundsNeeded>> runs = read_runs(options);
  if (!runs) return failed(err, runs.status(), kExitFailedRun);
  const std::optional<std::int64_t> serial = serial_mini_batches(*runs);
  if (!serial) return failed(err, failed_precondition("no run of one worker alone"), kExitFailedRun);
  const fs::path folder(options.sweep.out);
  const std::string remarks = too_coarse(options, *runs) + why_never(*config, *runs, *serial);
  Status written = write_file_atomically(folder / "speedup.csv", csv_of_runs(*runs, *serial));
  if (written.is_ok())
    written = write_file_atomically(folder / "speedup_curve.csv", csv_of_costs(options, *runs, *serial));
  if (written.is_ok()) {
    SpeedupPage page{*options.sweep.target, *serial, *runs, options.workers, options.local_steps, remarks};
    if (measured) page.measured = measured->exchange();
    written = write_file_atomically(folder / "speedup.html", speedup_page(page));
  }
  if (!written.is_ok()) return failed(err, written, kExitFailedRun);
  out << "one worker alone: " << *serial << " mini-batches\n"
      << rendered(gains(options, *runs, *serial), TextStyle::kPlain)
      << rendered(costs(options, *runs, *serial), TextStyle::kPlain) << remarks;
  if (measured) print_measured(options.measured, *measured, options, *runs, *serial, out);
  return kExitOk;
}

void add_speedup(CLI::App& app, int& exit_status) {
  CLI::App* command =
      app.add_subcommand("speedup", "When local steps pay: SparkNet's model from simulated runs");
  const auto options = std::make_shared<SpeedupOptions>();
  const auto target = std::make_shared<double>(0.0);
  options->sweep.jobs = usable_cores();
  command->add_option("CONFIG", options->sweep.config_path, "A run with an inner_optimizer")->required();
  command->add_option("--out", options->sweep.out, "Its directory; finished runs in it are kept")->required();
  command->add_option("--target", *target, "The test accuracy to be reached, above 0, to 1")
      ->required()
      ->check(accuracy_option());
  command->add_option("--workers", options->workers, "Numbers of workers, a 1 among them")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{4096}));
  command->add_option("--local-steps", options->local_steps, "Numbers of local steps, a 1 among them")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000}));
  command->add_option("--exchange", options->exchange, "What an exchange takes, in times of a mini-batch")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(number_option([](double x) { return x >= 0.0 && x <= 1e9; }, "0 to 1000000000"));
  command->add_option("--measured", options->measured,
                      "A finished run of the cluster: what its exchanges took is one");
  command
      ->add_option("--evaluate-every", options->evaluate_every,
                   "Mini-batches of a worker between evaluations, at least a round's (default " +
                       std::to_string(options->evaluate_every) + ")")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000}));
  command->add_option("SETTING", options->sweep.axes, "key.path=value, for all runs");
  command->add_option("--jobs", options->sweep.jobs, "Runs at a time")->check(CLI::Range(1u, 1024u));
  command->callback([options, target, &exit_status] {
    options->sweep.target = *target;
    options->sweep.program = own_program();
    options->sweep.terminal = ::isatty(STDERR_FILENO) == 1;
    StandardError errors("paceline speedup");
    exit_status = run_speedup(*options, std::cout, errors.stream());
  });
}

}  // namespace paceline
