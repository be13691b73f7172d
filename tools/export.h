// `paceline export RUN --format safetensors | onnx | caffemodel --out FILE`: the final model of a run in another
// program's format.
#pragma once

#include <iosfwd>
#include <string>

namespace CLI {
class App;
}

namespace paceline {

struct ExportOptions {
  std::string what = {};    // a run directory, or its model.bin
  std::string format = {};  // safetensors, onnx or caffemodel
  std::string out = {};     // the file that is written
};

// A line that says what was written to `out`, and 0; or the error's one line to `err`, and 1 or 2.
int export_model(const ExportOptions& options, std::ostream& out, std::ostream& err);

// The subcommand; when it is the one called, it stores its exit status in `exit_status`, which outlives `app`.
void add_export(CLI::App& app, int& exit_status);

}  // namespace paceline
