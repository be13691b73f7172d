// `paceline model FILE`: the layers of a network as a table: what each reads, what shape it gives, parameters
// and multiply-adds of one sample; and their sums. Running statistics, which nothing trains, are counted apart. FILE is
// a configuration, a Caffe net or a Caffe solver.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace paceline {

struct ModelOptions {
  std::string path = {};
  std::vector<std::string> overrides = {};  // "key.path=value", of a configuration alone
  std::string input = {};                   // "C,H,W"; empty: what the file says
  std::string phase = "train";
  std::int64_t classes = 10;  // of a ready-made network with `input`
};

// The table to `out`, its last line `parameters N`, and 0; or the error's one line to `err`, and 2. What of a
// Caffe file is left out is named on `err`.
int model(const ModelOptions& options, std::ostream& out, std::ostream& err);

// The subcommand; when it is the one called, it stores its exit status in `exit_status`, which outlives `app`.
void add_model(CLI::App& app, int& exit_status);

}  // namespace paceline
