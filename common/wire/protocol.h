// The protocol's version and the sizes that every peer keeps to (docs/PROTOCOL.md).
#pragma once

#include <cstddef>
#include <cstdint>

namespace paceline::wire {

// Raised with every incompatible change; a peer with another one is refused, both values named.
inline constexpr std::uint32_t kProtocolVersion = 8;
inline constexpr std::size_t kPayloadBytesMax = 1 << 20;
// A payload in fewer bytes stands for no more floats than one in float32 could.
inline constexpr std::int64_t kPayloadFloatsMax = kPayloadBytesMax / sizeof(float);
inline constexpr std::size_t kHeaderBytesMax = 1 << 20;

}  // namespace paceline::wire
