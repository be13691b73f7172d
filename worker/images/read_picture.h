// Reads encoded files whole, with as few calls as can be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "common/status.h"

namespace paceline {

inline constexpr std::size_t kEncodedBytesMax = std::size_t{1} << 30;

// The file's beginning, at most `bytes_max` of it, into `bytes`; returns the file's size. Errors: kNotFound,
// kUnavailable as the system says, or it is no regular file; kInvalidArgument it is larger than
// kEncodedBytesMax; kResourceExhausted the process or the machine has no descriptor or no memory left, which says
// nothing of the file.
Result<std::int64_t> read_picture(const std::filesystem::path& file, std::vector<std::uint8_t>& bytes,
                                  std::size_t bytes_max = kEncodedBytesMax);

// Its last bytes, at most `bytes_max`. Errors: as above.
Status read_picture_tail(const std::filesystem::path& file, std::vector<std::uint8_t>& bytes,
                         std::size_t bytes_max);

}  // namespace paceline
