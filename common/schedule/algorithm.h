// The algorithms of an all-reduce: what planners.h plans, and the configuration chooses from.
#pragma once

namespace paceline::schedule {

enum class Algorithm { kAuto, kRing, kHalvingDoubling, kBinaryBlocks, kTorus, kDirect, kTree };

}  // namespace paceline::schedule
