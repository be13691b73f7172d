// Where a run's parameters are cut into shards. Nearly equal ranges (partition.h), cut anywhere; under an optimizer
// that sums over whole tensors (trust_ratio.h) at the borders of tensors, each at the one nearest to its place in
// the equal cut. So a server has all that a norm needs and asks no other: a second exchange between servers, for
// each step, would cost more than shards of unequal size, and could fail half-way.
//
//   conv 800 · bias 20 · fc 1,600 · bias 10, two shards     equal [0, 1215) [1215, 2430)
//                                                           whole [0, 820) [820, 2430)
#pragma once

#include <cstdint>
#include <vector>

#include "common/config/run_config.h"
#include "common/params/layout.h"
#include "common/params/partition.h"

namespace paceline {

// In shard order, without gaps; each element is in exactly one. shards >= 1. With fewer tensors than shards, or one
// that is much larger than the others, some are empty. A pure function: every daemon of the run has the same.
std::vector<Range> shard_ranges(const Layout& layout, const OptimizerSection& optimizer,
                                std::uint32_t shards);

}  // namespace paceline
