// `paceline check-config FILE [key.path=value …]`: says whether a configuration is one, before any daemon
// starts; with --data, whether its data set is one.
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
  bool data = false;       // also reads the data set, as every node does when it starts
  bool print = false;      // also the effective configuration: every key, loadable again
  std::string get = {};    // instead: the effective value of this key, plainly, for scripts
  bool reference = false;  // instead: configs/reference.yaml
};

// "FILE: ok" (and what was asked for) to `out` and 0, or the error's one line to `err` and 2.
int check_config(const CheckConfigOptions& options, std::ostream& out, std::ostream& err);

// The subcommand; when it is the one called, it stores its exit status in `exit_status`, which outlives
// `app`.
void add_check_config(CLI::App& app, int& exit_status);

}  // namespace paceline
