// `paceline data bench CONFIG`: how many pictures a second each part of the data's path makes, and which one
// holds the others back (data.kind: images).
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace paceline {

struct DataBenchOptions {
  std::string path = {};  // the configuration
  std::vector<std::string> overrides = {};
  double seconds = 4;  // for each of the two measurements
  double step_ms = 0;  // that a training step on another device takes, between two mini-batches
};

// Makes training samples as a run of the configuration would: on one thread, each part timed; then by the
// loader's threads, with the pauses that training would make. Prints a table to `out` and returns 0; or one line to
// `err`: 2 for a configuration or data that cannot be, 1 when a picture ended it.
int data_bench(const DataBenchOptions& options, std::ostream& out, std::ostream& err);

// The subcommand `data bench`, where `data` is the command `data`; when it is the one called, it stores its exit
// status in `exit_status`, which outlives `data`.
void add_data_bench(CLI::App& data, int& exit_status);

}  // namespace paceline
