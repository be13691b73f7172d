// `paceline evaluate WHAT [--data PATH] [--config FILE]`: what a model is worth on the test set, computed anew.
// WHAT is a run directory (its model.bin), any model file, a caffemodel, a checkpoint's folder, or RUN/checkpoint/best,
// which names one. The network and the data are those of the run's config.yaml: that of the directory, the one
// beside the model file, the one of the checkpoint's run; or of FILE. A model file of a ready-made network
// needs none of them, where PATH says where the data is.
#pragma once

#include <iosfwd>
#include <string>

namespace CLI {
class App;
}

namespace paceline {

struct EvaluateOptions {
  std::string what = {};    // run directory, model file or checkpoint
  std::string data = {};    // where the data set is; empty: where the run had it
  std::string config = {};  // empty: the run's
};

// "WHAT: version V of MODEL: test loss L, accuracy A % of N samples" to `out` and 0; of a caffemodel, which has no
// version, "WHAT: Caffe's weights of MODEL: …"; or one line to `err`: 2
// when the run, its model or its data are missing or contradict each other, 1 when computing failed.
int evaluate(const EvaluateOptions& options, std::ostream& out, std::ostream& err);

// The subcommand; when it is the one called, it stores its exit status in `exit_status`, which outlives
// `app`.
void add_evaluate(CLI::App& app, int& exit_status);

}  // namespace paceline
