// The built-in task: a feed-forward network (worker/model) on CIFAR-10 data (worker/data), as one
// TaskFactory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "common/config/run_config.h"
#include "common/status.h"
#include "common/task/task.h"

namespace paceline {

class Gpus;         // worker/model/gpus.h
class NormMeeting;  // worker/model/norm_meeting.h

// For how many sizes of mini-batches (`train.batch_balance: speed`) a trainer keeps a back end, with its
// activations. A worker's size moves by a step or two, back and forth.
inline constexpr std::size_t kSizesKept = 4;

// Builds the network, reads the training set and starts the loader threads; one where the training set is on
// the GPUs (`data.on_device`), whose back ends then need no more than which samples. The test set is read
// now, to see that it is whole, and again by the first make_evaluator(). The tasks' data_fingerprint() is the
// training set's. Errors: those of build_network() and of the data set's files, naming key or file;
// kInvalidArgument without a data.path; with `train.device: cuda` those of load_gpus()
// (worker/model/gpu_module.h).
// `meeting`: with `train.batch_norm_group` where members are threads of this process: node n's trainer is member n mod
// the group; outlives the tasks. Null: members are nodes, connected by TaskFactory::meet().
Result<std::unique_ptr<TaskFactory>> make_network_tasks(const RunConfig& config,
                                                        std::size_t sizes_kept = kSizesKept,
                                                        NormMeeting* meeting = nullptr);

// The same on GPUs that are open; null: on the CPU, whatever `train.device` says. Errors: also those of
// Gpus::keep().
Result<std::unique_ptr<TaskFactory>> make_network_tasks_on(std::shared_ptr<Gpus> gpus,
                                                           const RunConfig& config,
                                                           std::size_t sizes_kept = kSizesKept,
                                                           NormMeeting* meeting = nullptr);

// Whether the data set is there and whole: reads it, and keeps nothing but a number over what it holds, the
// test set included. Errors: those of make_network_tasks() that concern the data.
Result<std::uint64_t> check_data(const RunConfig& config);

// The layout of the network that `config` describes. Errors: those of build_network().
Result<Layout> network_layout(const RunConfig& config);

// Samples that an evaluation computes at once, at most: as many as are trained at once, so whoever has memory for that
// has it for this, and no more than keep a back end busy.
std::int64_t evaluated_at_once(const TrainSection& train);

// The metric of `parameters` over the test set in config.data.path, or over train.eval_samples of it:
// what the evaluator and `paceline evaluate` print. Errors: as above, and those of the back end.
Result<Metric> evaluate_network(const RunConfig& config, std::span<const float> parameters);

}  // namespace paceline
