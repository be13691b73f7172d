// How large the segments of shared memory are: what their owners make and their peers map at most, so that
// nobody can make another process hold more than a run of this configuration needs. One rule for both sides.
#pragma once

#include <cstddef>
#include <cstdint>

namespace paceline::wire {

// The states of a shard's parameters that its segment has room for.
inline constexpr std::int64_t kSharedStates = 6;

// Bytes of a node's segment: `gradients` of `floats` values for each of its threads; at most half of the
// machine's memory, however far the threshold allows a worker to lead.
std::int64_t gradient_segment_bytes(std::int64_t floats, std::uint32_t threads, std::size_t gradients);

// Bytes of a server's segment, for a shard of `floats` values cut into blocks of any size that is lent;
// at most half of the machine's memory.
std::int64_t parameter_segment_bytes(std::int64_t floats);

}  // namespace paceline::wire
