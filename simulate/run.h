// A simulated run from a configuration to its directory: what `paceline simulate` does.
#pragma once

#include <filesystem>
#include <optional>

#include "common/config/command_line.h"
#include "common/config/run_config.h"
#include "common/status.h"
#include "common/task/task.h"
#include "simulate/world.h"

namespace paceline::simulate {

struct SimulatedRun {
  Outcome outcome;
  RunConfig assumed;                           // the configuration, with what the trace said better
  std::optional<std::filesystem::path> trace;  // where computations came from, if not from `assumed`
};

// Simulates `config`. `trace`: the directory of a real run whose computations are drawn from (trace.h).
// `tasks`: what is trained in training mode; null: the configuration's network on data.path. On the calling
// thread, but for members of norm groups (worker/model/group_trainers.h), and pure but for reading files: the same
// arguments give the same outcome, bit for bit.
// Errors: those of make_plan(), read_trace(), make_network_tasks() and World::run().
Result<SimulatedRun> simulate(const RunConfig& config, const std::optional<std::filesystem::path>& trace = {},
                              TaskFactory* tasks = nullptr);

// Whether `out` may be written to: it holds no run, or `force` replaces it. Changes nothing. Errors:
// kFailedPrecondition, naming what is there.
[[nodiscard]] Status check_directory(const std::filesystem::path& out, Force force);

// config.yaml, curve.csv, phases.csv, phases_histogram.csv, progress.csv, staleness.csv, after training
// model.bin, with run.tensorboard an event file, with run.trace trace.json, and, last, summary.json, as a
// real run's; the configuration is what was assumed. What an earlier run left there goes first. Errors:
// kUnavailable the folder cannot be made or cleared, or no event file written; those of
// common/files/atomic_file.h.
[[nodiscard]] Status write_directory(const std::filesystem::path& out, const SimulatedRun& run);

}  // namespace paceline::simulate
