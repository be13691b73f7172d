// What the files of this folder have in common: a file descriptor that is closed, and a system's error as a
// Status that names the file.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>

#include "common/status.h"

namespace paceline {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() { close(); }
  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  // 0, or -1 with errno.
  int close() {
    const int fd = std::exchange(fd_, -1);
    return fd < 0 ? 0 : ::close(fd);
  }

 private:
  int fd_;
};

// "cannot write runs/x/model.bin: No space left on device". kNotFound a folder or the file is missing;
// kResourceExhausted disk, quota or file size limit is used up; kUnavailable anything else.
inline Status file_error(const char* cannot, const std::filesystem::path& path, int error) {
  std::string message = std::string("cannot ") + cannot + " " + path.string() + ": " + std::strerror(error);
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return not_found(std::move(message));
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return resource_exhausted(std::move(message));
    default:
      return unavailable(std::move(message));
  }
}

}  // namespace paceline
