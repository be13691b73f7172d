// What a TCP connection has received. In a file of its own, since the kernel's header that tells and the C
// library's, which Asio includes, define the same structs.
//
// Thread: any.
#pragma once

#include <cstdint>
#include <optional>

namespace paceline::wire {

// Bytes that the kernel has received over it so far, read or not; nothing where the descriptor is no TCP
// connection's.
std::optional<std::int64_t> received_over(int descriptor);

}  // namespace paceline::wire
