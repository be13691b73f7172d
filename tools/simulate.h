// `paceline simulate CONFIG --out DIR [--force] [--trace RUN] [key=value …]`: a run in virtual time
// (docs/SIMULATOR.md). Its directory is a real run's, so `paceline report` reads both.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "common/config/command_line.h"

namespace CLI {
class App;
}

namespace paceline {

struct SimulateOptions {
  std::string config_path = {};
  std::vector<std::string> overrides = {};
  std::string out = {};      // run directory
  Force force = Force::kNo;  // replace a run that is there
  std::string trace = {};    // directory of a real run; empty: none
};

// One line on `out` (iterations, virtual seconds, real seconds) and 0; or one line to `err`: 2 when the
// configuration, the trace or the directory is wrong, before anything runs; 1 when the run ended other than
// ok or its files could not be written.
int run_simulate(const SimulateOptions& options, std::ostream& out, std::ostream& err);

// The subcommand; when it is the one called, it stores its exit status in `exit_status`, which outlives
// `app`.
void add_simulate(CLI::App& app, int& exit_status);

}  // namespace paceline
