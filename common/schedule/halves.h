// The two halves of an all-reduce (plan.h), for ranks of which each steps its own part of what is summed (ZeRO, Rajbhandari
// et al. 2020, stage 1; in parameter servers that part is a shard):
//
//   sums    reduce-scatter: every float is summed at one rank, which owns it
//   copies  all-gather: what its owner has made of it goes to all others
//
// They are the same rows as before, in the same order, but that no rank begins the second half before it has ended the
// first. A rank's keeper, the next one, may be sent its sums as well: it makes the same of them, and has what
// is made when the owner is lost.
//
// Worked example, ring, 2 ranks, 32 floats (plan.h): rank 0 owns 0..16, rank 1 16..32.
//
//   sums    rank 0: send 16..32, add 0..16          rank 1: add 16..32, send 0..16
//   keeps   rank 0: send 0..16, receive 16..32      rank 1: receive 0..16, send 16..32
//   copies  rank 0: send 0..16, receive 16..32      rank 1: receive 0..16, send 16..32
#pragma once

#include <cstdint>
#include <vector>

#include "common/schedule/plan.h"
#include "common/status.h"

namespace paceline::schedule {

// Who else has what a rank makes of its own part.
enum class Keeper { kNobody, kNextRank };

struct Halves {
  Plan sums;  // and keeps
  Plan copies;
  std::vector<std::vector<Range>> owned;  // by rank, ascending; together each float once

  // Both in turn, for the checker (check.h): an all-reduce again.
  Plan whole() const;
};

// Of a plan that has been checked. Errors: kInvalidArgument where a sum waits for what is copied, or a float has no one
// owner; no planner's does.
[[nodiscard]] Result<Halves> halves_of(const Plan& plan, Keeper keeper);

}  // namespace paceline::schedule
