// XXH3, 64 bit (Collet): notices bytes that a disk or a crash has changed, as fast as memory is read. No
// protection against who changes them on purpose.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace paceline::server {

std::uint64_t checksum(std::span<const std::byte> bytes, std::uint64_t seed = 0);

}  // namespace paceline::server
