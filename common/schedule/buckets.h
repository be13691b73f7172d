// Buckets: neighbouring tensors that are reduced together, in the order in which a backward pass finishes them,
// so that the first leaves while the rest is computed (Goyal et al. 2017, §4). Many small transfers would each
// pay a round trip; one of everything could not begin before the pass has ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/params/layout.h"
#include "common/params/partition.h"

namespace paceline::schedule {

// Floats of the flat vector, from its end to its begin: each bucket as few tensors as have `bucket_bytes` (> 0)
// or more, the last one what is left. Together they are all of the layout; none is empty.
std::vector<Range> buckets(const Layout& layout, std::int64_t bucket_bytes);

// So many are under way at a time, at most (worker/allreduce/bucket_sums.h).
inline constexpr std::size_t kBucketsInFlight = 4;

}  // namespace paceline::schedule
