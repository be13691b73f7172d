// `paceline speedup CONFIG --out DIR --target ACC [--workers K,…] [--local-steps N,…] [--exchange S,…]
// [--measured RUN] [key.path=value …]`: how much faster K workers with local steps reach an accuracy than one worker,
// and than workers that exchange each gradient (sweep/speedup.h; docs/SIMULATOR.md).
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "tools/sweep.h"

namespace CLI {
class App;
}

namespace paceline {

struct SpeedupOptions {
  SweepOptions sweep = {};  // its target is the accuracy; what it is given as axes is "key.path=value"
  std::vector<std::int64_t> workers = {1, 2, 4, 8};
  std::vector<std::int64_t> local_steps = {1, 10, 50};
  std::vector<double> exchange = {0.01, 0.1, 1, 10, 100};  // S in units of a mini-batch's time
  std::string measured = {};          // a finished run of the cluster, whose S is one of them; empty: none
  std::int64_t evaluate_every = 100;  // mini-batches of a worker, or each round if that is more
};

// Simulates what is not finished yet, as a sweep of training runs, then writes speedup.csv (runs), speedup_curve.csv
// (by cost of an exchange) and speedup.html (both) into its directory and says the same on `out`. The exit status is
// that of run_sweep(), and 1 also where one worker alone never reaches the accuracy.
int run_speedup(const SpeedupOptions& options, std::ostream& out, std::ostream& err);

// The subcommand, as in tools/sweep.h.
void add_speedup(CLI::App& app, int& exit_status);

}  // namespace paceline
