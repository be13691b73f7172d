// Stages: a network cut into contiguous parts of its topological order, each to be computed on a node of its own
// (docs/PIPELINES.md); or into several times as many chunks, of which each node has every K-th
// (common/schedule/pipeline.h). Nothing is run to find out shapes.
//
// What passes from a stage to the next are all values that are made before the cut and read after it. A value that
// only a later stage reads is carried along.
//
//   layers   0 conv {0}   1 relu {1} | 2 conv {2}   3 dropout {3} | 4 add {2, 4}   5 dense {5}
//   passes                           value 2                      values 2 and 4
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/network/network.h"
#include "common/params/partition.h"
#include "common/schedule/pipeline.h"

namespace paceline {

// Layers [first, last) of a network.
struct StageSpec {
  std::size_t first = 0;
  std::size_t last = 0;
  std::vector<std::size_t> inputs;   // values that come in, ascending; of the first stage the image
  std::vector<std::size_t> outputs;  // values that go on, ascending; of the last stage none
  Range parameters;                  // of the layout, where it is laid out by stages
};

// Whether a training loop of one's own says where its model is cut, so that nothing is cut here (pipeline.balance:
// loop): by hand, without a list.
bool cut_by_loop(const StageBalance& balance);

// What stages keep between passes.
struct KeptByStages {
  std::vector<schedule::Kept> stages;  // of each, or of each chunk
  std::vector<std::int64_t> sizes;     // of the micro-batches, the largest first
  std::int64_t more_vectors = 0;       // of its parameters, besides those that it computes with
};

// Cuts `network` into `chunks` times as many parts. Errors: kInvalidArgument, as "got ..., expected ...", more parts
// than layers with parameters; by hand: not one number for each part, one without layers or without parameters, layers
// that do not add up. `kept`: read for a balance of memory.
Result<std::vector<StageSpec>> cut_into_stages(const NetworkSpec& network, std::uint32_t stages,
                                               const StageBalance& balance, const KeptByStages& kept,
                                               std::uint32_t chunks = 1);
// What each layer costs where nobody has measured it: its products, and the elements that it gives.
std::vector<double> costs_by_products(const NetworkSpec& network);
// The same by what each layer costs, >= 0, and how fast each stage's node is, > 0 (empty: all alike): the cut whose
// slowest stage is the fastest. Errors: as above, too many stages.
Result<std::vector<StageSpec>> cut_by_costs(const NetworkSpec& network, std::span<const double> costs,
                                            std::uint32_t stages, std::span<const double> speeds = {},
                                            std::uint32_t chunks = 1);
// Layers [first, last) as a stage.
StageSpec stage_of_layers(const NetworkSpec& network, std::size_t first, std::size_t last);
// The whole of it as one stage.
StageSpec whole_network(const NetworkSpec& network);

// Of a validated run: its stages, or their chunks in the network's order; one without a pipeline. Errors as above, and
// micro-batches of which the schedule has no plan.
Result<std::vector<StageSpec>> stages_of_run(const RunConfig& config, const NetworkSpec& network);
// Lays the parameters out stage by stage, of each its chunks one after the other, so that what a node holds is one
// range. As many parts as `stages` lie so already. Gives the parts as they lie then.
std::vector<StageSpec> lay_out_by_stages(NetworkSpec& network, const std::vector<StageSpec>& parts,
                                         std::uint32_t stages);
// By stage, the range of its parts' parameters in a network that is laid out so.
std::vector<Range> held_by_stages(const std::vector<StageSpec>& parts, std::uint32_t stages);
// The samples of a group's mini-batch: train.batch_size of each stage's worker.
std::int64_t group_samples(const RunConfig& config);

// Floats of a sample in all of `values`.
std::int64_t floats_of(const NetworkSpec& network, const std::vector<std::size_t>& values);
// By value, whether it depends on a parameter: what comes back is sent for those alone.
std::vector<bool> trained_values(const NetworkSpec& network);
// Of `values` those that do.
std::vector<std::size_t> only_trained(const NetworkSpec& network, const std::vector<std::size_t>& values);

// What a stage takes, of one sample.
struct StageCost {
  std::int64_t multiply_adds = 0;  // forward
  std::int64_t activations = 0;    // floats that its layers give
};
StageCost cost_of(const NetworkSpec& network, const StageSpec& stage);

}  // namespace paceline
