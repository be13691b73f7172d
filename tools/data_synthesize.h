// `paceline data synthesize --out DIR`: generates a data set in CIFAR-10's format, so that every run is
// possible on a machine without internet (docs/DATA.md).
#pragma once

#include <iosfwd>

#include "worker/data/synthetic.h"

namespace CLI {
class App;
}

namespace paceline {

// Writes the data set and says so in one line to `out`; or the error's one line to `err`. Returns the exit
// status: 0; 2 for options that cannot be (and a folder that already holds data); 1 when writing failed.
int data_synthesize(const SyntheticOptions& options, std::ostream& out, std::ostream& err);

// The command `data` with its subcommands, `synthesize` and `bench`; when it is the one called, it stores its exit
// status in `exit_status`, which outlives `app`.
void add_data_synthesize(CLI::App& app, int& exit_status);

}  // namespace paceline
