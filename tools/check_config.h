// `paceline check-config FILE [key.path=value …]`: says whether a configuration is one, before any daemon
// starts; with --data, whether its data set is one, with --init whether train.init_from names a model for it, with
// --resume whether a run that goes on may have it.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace paceline {

struct CheckConfigOptions {
  std::string path = {};
  std::vector<std::string> overrides = {};
  bool data = false;     // also reads the data set, as every node does when it starts
  bool init = false;     // also reads train.init_from's file, as node 0 does where a run begins
  bool resume = false;   // `path` is the run's own file, and what its checkpoints go by may not be overridden
  bool print = false;    // also the effective configuration: every key, loadable again
  std::string get = {};  // instead: the effective value of this key, plainly, for scripts
  bool reference = false;  // instead: configs/reference.yaml
};

// "FILE: ok", what scale and warm-up make of the rate (and what was asked for) to `out` and 0, or the error's one line
// to `err` and 2; kExitOtherConfiguration where a resume would have to keep what it is to change.
int check_config(const CheckConfigOptions& options, std::ostream& out, std::ostream& err);

// The subcommand; when it is the one called, it stores its exit status in `exit_status`, which outlives
// `app`.
void add_check_config(CLI::App& app, int& exit_status);

}  // namespace paceline
