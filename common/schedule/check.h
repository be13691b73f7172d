// Whether a plan (plan.h) is an all-reduce, found out by replaying it on sets of ranks instead of floats. Knows no
// algorithm, and takes no row's `after` for granted.
#pragma once

#include "common/schedule/plan.h"
#include "common/status.h"

namespace paceline::schedule {

// OK when every rank ends with each float summed once from every rank, however the transfers interleave. Errors:
// kInvalidArgument, naming rank and row:
// - a range outside of the vector, a peer that is no other rank, an `after` that does not come before;
// - two rows of a rank that may be under way at a time, of which one overwrites what the other reads or writes;
// - a row whose other end's next row for it is about other floats, or that has none;
// - ranks that wait for each other: a send is done only when its peer receives, so no buffering is relied on;
// - a float that is added twice, or overwritten, or not all there in the end.
[[nodiscard]] Status check(const Plan& plan);

}  // namespace paceline::schedule
