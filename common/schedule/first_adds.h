// Which rows of a rank add to floats that none of its rows has touched before. Such floats need not be in the vector
// until then: who makes them of something else, as of several gradients, does so with the row, a stretch at a time, in
// one pass over memory instead of two.
//
// Worked example, rank 0 of the one in plan.h: row 1 is such a row, of 0..16. 16..32 is to be there before row 0.
#pragma once

#include <cstdint>
#include <vector>

#include "common/params/partition.h"
#include "common/schedule/plan.h"

namespace paceline::schedule {

struct FirstAdds {
  std::vector<bool> rows;   // by row
  std::vector<Range> rest;  // the floats that none of them has, ascending
};

// Of one rank's rows of a plan that has been checked, over so many floats.
FirstAdds first_adds(const Rows& rows, std::int64_t floats);

}  // namespace paceline::schedule
