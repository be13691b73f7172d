// `paceline evaluate RUN [--data PATH]`: what a run's final model is worth on the test set, computed anew
// from its config.yaml and model.bin.
#pragma once

#include <iosfwd>
#include <string>

namespace CLI {
class App;
}

namespace paceline {

struct EvaluateOptions {
  std::string run = {};   // run directory
  std::string data = {};  // where the data set is; empty: where the run had it
};

// "RUN: version V of MODEL: test loss L, accuracy A % of N samples" to `out` and 0; or one line to `err`: 2
// when the run, its model or its data are missing or contradict each other, 1 when computing failed.
int evaluate(const EvaluateOptions& options, std::ostream& out, std::ostream& err);

// The subcommand; when it is the one called, it stores its exit status in `exit_status`, which outlives
// `app`.
void add_evaluate(CLI::App& app, int& exit_status);

}  // namespace paceline
