// What a node carries out for each bucket of a formation: its rows of the plans (common/schedule/), made and checked
// once.
//
// Buckets of one size share their programs, but where each rank is to have whole tensors (lars, lamb). There are at
// most as many as buckets, each of one rank's rows: with 1,024 nodes, the most that there may be, some 100 KB.
//
// Every node makes the plans of all ranks, at the start and after each loss. One of equal parts has 4 rows for every
// two ranks. One of whole tensors has 4 for each rank and tensor, or segment of one (planners.h), but each bucket has
// its own, made twice and checked once: with 1,024 nodes and 40 MB a million rows in all, 10 s at -O1, less than one of
// equal parts. That grows as the model does: 6 GB take a quarter of an hour.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "common/config/run_config.h"
#include "common/params/layout.h"
#include "common/schedule/first_adds.h"
#include "common/schedule/program.h"
#include "worker/allreduce/measured_choice.h"
#include "worker/allreduce/sharded_optimizer.h"

namespace paceline {

struct BucketPrograms {
  schedule::Program sums;                   // all of the all-reduce, or its first half
  std::optional<schedule::Program> copies;  // the second
  std::vector<Range> own;                   // of halves: what this rank sums, counted from the bucket's begin
  schedule::FirstAdds first;                // of sums
};

struct Bucket {
  Range range;
  std::shared_ptr<const BucketPrograms> programs;
};

struct BucketPlans {
  std::vector<Bucket> buckets;  // backwards from the model's end
  Shares shares;                // with exchange.shard_optimizer; nodes are left out
};

// `choices`: measured ones, also with more ranks; empty: as configured. `keeps`: with exchange.shard_optimizer, whether
// each share is kept by another rank: the next that has one itself, since whoever has copied everything knows of those
// that they are after their sums. A plan that its checker refuses is a bug of ours: an assertion.
BucketPlans plan_buckets(const RunConfig& config, const Layout& layout, const FormationPlace& place,
                         const std::vector<MeasuredChoice>& choices, bool keeps);

}  // namespace paceline
