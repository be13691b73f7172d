// Files written whole or not at all: what a reader finds under the name is the old content or the new one,
// also after a crash or on a full disk. And the counterpart, reading a whole file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "common/files/descriptor.h"
#include "common/status.h"

namespace paceline {

// A file in the making: what is written goes into a temporary file beside `path`; commit() syncs it, renames
// it over `path` and syncs the folder. Until then, and after an error, `path` is as it was, and the temporary
// goes with this object; but where commit() could not sync the folder `path` has the new content, which a
// crash of the machine may take back. Errors name `path`, or the folder, and the system's reason: kNotFound
// the folder is missing; kResourceExhausted disk, quota or file size limit (file_size_limit_is_an_error())
// is used up; kUnavailable anything else (permissions, I/O). Temporaries that killed processes have left are
// in nobody's way. Thread: one at a time; two writers of one path: the last commit wins.
class AtomicFile {
 public:
  static Result<AtomicFile> create(std::filesystem::path path);
  AtomicFile(AtomicFile&&) noexcept = default;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  // Appends. After an error there is nothing more to be done with it.
  [[nodiscard]] Status write(std::span<const std::byte> bytes);
  // Once, as the last.
  [[nodiscard]] Status commit();

 private:
  AtomicFile(std::filesystem::path path, std::filesystem::path temporary, Descriptor file);

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  Descriptor file_;
};

// The name of AtomicFile's temporaries for `path` begins and ends so: what a process that was killed has
// left.
bool is_temporary_of(const std::filesystem::path& file, const std::filesystem::path& path);

// Writes the pieces, one after another, as the content of `path`, as AtomicFile does.
[[nodiscard]] Status write_file_atomically(const std::filesystem::path& path,
                                           std::span<const std::span<const std::byte>> pieces);
[[nodiscard]] Status write_file_atomically(const std::filesystem::path& path,
                                           std::initializer_list<std::span<const std::byte>> pieces);
[[nodiscard]] Status write_file_atomically(const std::filesystem::path& path, std::string_view text);

// Sees to it that the names in `folder` survive a crash. Some file systems cannot sync a folder: not an
// error. Errors: kNotFound there is none; kResourceExhausted, kUnavailable as the system says.
[[nodiscard]] Status sync_folder(const std::filesystem::path& folder);

// Beyond the limit on the size of its files (ulimit -f, systemd's LimitFSIZE) the system kills a process that
// writes on (SIGXFSZ). After this the write fails instead, as on a full disk, in this process and in those
// that it starts. First thing in main().
void file_size_limit_is_an_error();

// The whole content. Errors: kNotFound no such file; kResourceExhausted larger than `bytes_max` (asked before
// memory is taken); kUnavailable it cannot be read.
Result<std::string> read_file(const std::filesystem::path& path, std::size_t bytes_max);

}  // namespace paceline
