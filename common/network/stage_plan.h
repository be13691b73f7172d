// The plan of a run's pipeline, as pipeline.rematerialize and pipeline.memory ask for it: how many micro-batches each
// stage keeps the activations of, and what memory that takes (docs/PIPELINES.md). The executor, the simulator,
// `paceline schedule` and the configuration's check take it from here.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/network/stages.h"
#include "common/schedule/pipeline.h"
#include "common/status.h"

namespace paceline {

// Bytes that a stage keeps at most between passes of micro-batches of up to `samples`: outputs of layers, and what came
// in where that is computed with again. Copies in the library's own formats and messages on their way are not in it.
std::int64_t activation_bytes(const NetworkSpec& network, const StageSpec& stage, const schedule::Kept& kept,
                              std::int64_t samples);
// Whether micro-batches that are smaller than the largest are computed apart, in a place of their own, and not filled
// up: where layers mix samples, or more than a tenth of what is computed would be for nothing.
bool computes_apart(const NetworkSpec& network, const StageSpec& stage, std::int64_t largest,
                    std::int64_t samples);
// activation_bytes() with those of its parameters and their gradient, and of a micro-batch's where there are several.
// `sizes`: of the micro-batches, the largest first.
// `more_vectors`: of its parameters, that an all-reduce keeps there (common/config/reducing.h).
std::int64_t stage_bytes(const NetworkSpec& network, const StageSpec& stage, const schedule::Kept& kept,
                         std::span<const std::int64_t> sizes, std::int64_t more_vectors = 0);

// Of a validated run with a pipeline, cut into `stages`, or their chunks. kOn: a micro-batch at a time has its
// activations. kAuto: each stage keeps as many as pipeline.memory has room for. Checked. Errors: kInvalidArgument, as
// "got ..., expected ...", a stage needs more than pipeline.memory.
Result<schedule::PipelinePlan> plan_of_run(const RunConfig& config, const NetworkSpec& network,
                                           const std::vector<StageSpec>& stages);
// The same of a run without: that a worker has room for the network.
Status check_memory_of_whole(const RunConfig& config, const NetworkSpec& network);

}  // namespace paceline
