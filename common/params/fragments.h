// How a model is cut into fragments, whose deltas leave at places of their own in a round (exchange.fragments;
// docs/SYNC.md, Local steps): runs of whole tensors in a row, as equal in size as tensors allow. In a row, not
// strided, so that a fragment is one range of the vector and leaves as the end of a gradient does while the rest is
// still computed.
//
//   conv 800 · bias 20 · fc 1,600 · bias 10, two fragments     [0, 820) [820, 2430)
#pragma once

#include <cstdint>
#include <vector>

#include "common/params/layout.h"
#include "common/params/partition.h"
#include "common/status.h"

namespace paceline {

// In the layout's order, without gaps, each of one tensor at least. A pure function. Errors: kInvalidArgument, more
// fragments than tensors. fragments >= 1; of an empty layout there is one, which is empty.
Result<std::vector<Range>> fragment_ranges(const Layout& layout, std::int64_t fragments);

}  // namespace paceline
