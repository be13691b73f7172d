// A Caffe solver (solver.prototxt) and its net as a configuration: which keys of ours it says, with the line
// where it says so. docs/CAFFE.md has the whole table. Semantics: Caffe's solver.cpp and solvers/*.cpp.
//
//   base_lr 0.001, momentum 0.9      train.optimizer: {kind: momentum, momentum_form: inside, lr, momentum}
//                                    with local steps train.inner_optimizer, and the servers average
//   max_iter 4000, two workers       train.total_iterations: 8000: each iteration is one mini-batch of each,
//                                    as Caffe trains with two GPUs
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/caffe/net.h"
#include "common/config/run_config.h"
#include "common/status.h"

namespace paceline::caffe {

// Asked before a key is set, with the place that says its value: false where it has been given otherwise, and
// stays.
using MaySet = std::function<bool(const std::string& key, const std::string& file, int line)>;

// Reads the solver and the nets that it names, and sets what they say in `config`, whose cluster and sync are
// known. Errors, one line with file, line and, of a net, layer: kNotFound, kInvalidArgument; what cannot be
// trained here is refused.
Status apply_solver(const std::string& file, const MaySet& may_set, RunConfig& config,
                    std::vector<std::string>& notes);

// The net that a solver trains, or evaluates. Errors: as above.
Result<Net> read_net_of_solver(const std::string& file, Phase phase, std::vector<std::string>& notes);

// Whether the file is a solver, and no net: it names none of a net's parts. Errors: those of reading it.
Result<bool> is_solver(const std::string& file);

}  // namespace paceline::caffe
