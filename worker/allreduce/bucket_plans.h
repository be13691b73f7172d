// What a node carries out for each bucket of a formation: its rows of the plans (common/schedule/), made and checked once.
//
// Buckets of one size share their programs. There are at most as many as buckets, each of one rank's rows: with 1,024
// nodes, the most that there may be, some 100 KB.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/config/run_config.h"
#include "common/params/layout.h"
#include "common/schedule/halves.h"
#include "common/schedule/program.h"
#include "worker/allreduce/measured_choice.h"

namespace paceline {

struct BucketPrograms {
  schedule::Program sums;                   // all of the all-reduce, or its first half
  std::optional<schedule::Program> copies;  // the second
  std::vector<std::vector<Range>> owned;    // of halves: by rank, counted from the bucket's begin
};

struct Bucket {
  Range range;
  std::shared_ptr<const BucketPrograms> programs;
};

// Backwards from the model's end. `choices`: measured ones, also with more ranks; empty: as configured. `keeper`: with
// exchange.shard_optimizer. A plan that its checker refuses is a bug of ours: an assertion.
std::vector<Bucket> plan_buckets(const RunConfig& config, const Layout& layout, const FormationPlace& place,
                                 const std::vector<MeasuredChoice>& choices, schedule::Keeper keeper);

// Of all parameters, by rank, ascending: with exchange.shard_optimizer.
std::vector<std::vector<Range>> owned_of(const std::vector<Bucket>& buckets, std::uint32_t ranks);

}  // namespace paceline
