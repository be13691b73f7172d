// `paceline sweep CONFIG --out DIR [--grid FILE] [--jobs N] [--target ACC] [--trace RUN] AXIS…`: a grid of
// simulated runs into one table (docs/SIMULATOR.md, sweep/grid.h for what an axis is).
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace paceline {

struct SweepOptions {
  std::string config_path = {};
  std::vector<std::string> axes = {};
  std::string grid = {};                   // a file of axes, before those of the command line; empty: none
  std::string out = {};                    // the sweep's directory
  unsigned jobs = 1;                       // points at a time
  std::optional<double> target = {};       // accuracy in (0, 1], of the time-to-accuracy
  std::string trace = {};                  // directory of a real run for all points; empty: none
  std::string program = {};                // what simulates a point: `paceline`, an absolute path
  bool terminal = false;                   // `err` is one: a progress bar, not lines
  std::string command = "paceline sweep";  // who complains
};

// Runs what is not finished yet, `jobs` points at a time, each as `program simulate`, and keeps sweep.csv and
// sweep.dat in step with what is (beyond 1,000 finished points somewhat behind, until the end). Progress and
// complaints go to `err`, one line with the sum to `out`. 0: all points are finished and ok; 2: the grid, a
// point or the directory is refused, in one line, and nothing has run; 1: a point failed or ended other than
// ok (named), the sweep was stopped (SIGINT, SIGTERM, SIGHUP), or a file could not be written. The same call
// goes on where it stopped.
int run_sweep(const SweepOptions& options, std::ostream& out, std::ostream& err);

// The file of this very program, for the processes that simulate.
std::string own_program();

// The subcommand; when it is the one called, it stores its exit status in `exit_status`, which outlives
// `app`.
void add_sweep(CLI::App& app, int& exit_status);

}  // namespace paceline
