// A file that is read from its begin to its end in pieces, with its size known before: for files that are too
// large to be taken into memory before they have been looked at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "common/files/descriptor.h"
#include "common/status.h"

namespace paceline {

// Thread: one at a time.
class InputFile {
 public:
  // Errors: kNotFound no such file; kUnavailable it cannot be read, or is not a regular file.
  static Result<InputFile> open(std::filesystem::path path);

  // In bytes, when it was opened.
  std::uint64_t size() const { return size_; }

  // The next bytes into `into`; fewer than asked for, and how many, only where the file ends. Errors:
  // kUnavailable.
  Result<std::size_t> read(std::span<std::byte> into);

 private:
  InputFile(std::filesystem::path path, Descriptor file, std::uint64_t size)
      : path_(std::move(path)), file_(std::move(file)), size_(size) {}

  std::filesystem::path path_;
  Descriptor file_;
  std::uint64_t size_;
};

}  // namespace paceline
