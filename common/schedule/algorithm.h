// What the configuration chooses from: the algorithms of an all-reduce (planners.h), the schedules of a pipeline
// (pipeline.h).
#pragma once

namespace paceline::schedule {

enum class Algorithm { kAuto, kRing, kHalvingDoubling, kBinaryBlocks, kTorus, kHierarchical, kDirect, kTree };

enum class PipelineKind { kGpipe, kOneForwardOneBackward, kInterleaved };

}  // namespace paceline::schedule
