// The two halves of an all-reduce (plan.h), for ranks of which each steps its own part of what is summed (ZeRO,
// Rajbhandari et al. 2020, stage 1; in parameter servers that part is a shard):
//
//   sums    reduce-scatter: every float is summed at one rank, which owns it
//   copies  all-gather: what its owner has made of it goes to all others
//
// They are the same rows as before, in the same order, but that no rank begins the second half before it has ended the
// first. A rank may be sent another's sums as well: it keeps what that one makes of them, should it be lost.
//
// Worked example, ring, 2 ranks, 32 floats (plan.h): rank 0 owns 0..16, rank 1 16..32; each keeps the other's.
//
//   sums    rank 0: send 16..32, add 0..16          rank 1: add 16..32, send 0..16
//           rank 0: send 0..16, receive 16..32      rank 1: receive 0..16, send 16..32
//   copies  rank 0: send 0..16, receive 16..32      rank 1: receive 0..16, send 16..32
#pragma once

#include <cstdint>
#include <vector>

#include "common/schedule/plan.h"
#include "common/schedule/planners.h"
#include "common/status.h"

namespace paceline::schedule {

struct Halves {
  Plan sums;
  Plan copies;
  std::vector<std::vector<Range>> owned;  // by rank, ascending; together each float once

  // From now on the sums of rank r go to rank keepers[r], too, after the last that is added to them; to nobody where
  // that is r. In segments, as all rows: what is summed first leaves while the rest is.
  void keep(const std::vector<std::uint32_t>& keepers,
            std::int64_t segment_floats = PlanRequest{}.segment_floats);
  // Both in turn, for the checker (check.h): an all-reduce again.
  Plan whole() const;
};

// By rank, who keeps what it owns (Halves::keep()): the next rank that owns something itself, since whoever has copied
// everything knows of those that they are behind their sums. Itself where no other does, or nobody `keeps`. `owns`: by
// rank.
std::vector<std::uint32_t> keepers_of(const std::vector<bool>& owns, bool keeps);

// Of a plan that has been checked. Errors: kInvalidArgument where a sum waits for what is copied, or a float has no one
// owner; no planner's does.
[[nodiscard]] Result<Halves> halves_of(const Plan& plan);

}  // namespace paceline::schedule
