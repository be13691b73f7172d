// A pipeline as text (`paceline schedule`): the cut with what each stage takes, which micro-batch each computes when,
// the bubble, and by all-reduce what the nodes of each stage sum.
#pragma once

#include <iosfwd>
#include <vector>

#include "common/config/run_config.h"
#include "common/network/network.h"
#include "common/status.h"

namespace paceline {

struct PipelineCut {
  bool measure = false;             // by how long the layers take on this machine
  std::vector<double> speeds = {};  // with that: of each stage's node; empty: all alike
};

// Of a run with a pipeline, checked. Errors: kInvalidArgument, speeds of other than its stages, or without `measure`;
// that of balance: loop, whose model is not known here, so that else its stages are taken to be equal; a measured cut
// that needs more than pipeline.memory.
[[nodiscard]] Status print_pipeline(const PipelineCut& how, const RunConfig& config,
                                    const NetworkSpec& network, std::ostream& out);

}  // namespace paceline
