// Files written whole or not at all: what a reader finds under the name is the old content or the new one,
// also after a crash or on a full disk. And the counterpart, reading a whole file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "common/status.h"

namespace paceline {

// Writes the pieces, one after another, as the content of `path`: into a temporary file beside it, synced,
// then renamed over it, then the folder synced. On an error the temporary file is gone and `path` is as it
// was. Errors name the path and the system's reason: kNotFound the folder is missing; kResourceExhausted
// disk, quota or file size limit is used up; kUnavailable anything else (permissions, I/O). Thread: any; two
// writers of one path: the last rename wins.
[[nodiscard]] Status write_file_atomically(const std::filesystem::path& path,
                                           std::span<const std::span<const std::byte>> pieces);
[[nodiscard]] Status write_file_atomically(const std::filesystem::path& path,
                                           std::initializer_list<std::span<const std::byte>> pieces);
[[nodiscard]] Status write_file_atomically(const std::filesystem::path& path, std::string_view text);

// The whole content. Errors: kNotFound no such file; kResourceExhausted larger than `bytes_max` (asked before
// memory is taken); kUnavailable it cannot be read.
Result<std::string> read_file(const std::filesystem::path& path, std::size_t bytes_max);

}  // namespace paceline
