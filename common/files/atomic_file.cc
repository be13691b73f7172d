// Temporary file, fsync, rename, fsync of the folder: the order that survives a crash at every point.
#include "common/files/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

namespace paceline {
namespace {

// A file descriptor that is closed.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
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

Status system_error(const char* what, const std::filesystem::path& path, int error) {
  std::string message = std::string("cannot ") + what + " " + path.string() + ": " + std::strerror(error);
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

// 0, or the errno.
int write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return 0;
}

// Beside the target (a rename must not cross file systems) and of its own for each writer.
std::filesystem::path temporary_beside(const std::filesystem::path& path) {
  static std::atomic<unsigned> next{0};
  return path.parent_path() / ("." + path.filename().string() + "." + std::to_string(::getpid()) + "." +
                               std::to_string(next.fetch_add(1)) + ".tmp");
}

// Writes, syncs and closes `temporary`; 0, or the errno.
int fill(const std::filesystem::path& temporary, std::span<const std::span<const std::byte>> pieces) {
  Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file.is_open()) return errno;
  for (const auto& piece : pieces) {
    if (const int error = write_all(file.get(), piece); error != 0) return error;
  }
  if (::fsync(file.get()) != 0) return errno;
  return file.close() == 0 ? 0 : errno;
}

}  // namespace

Status write_file_atomically(const std::filesystem::path& path,
                             std::span<const std::span<const std::byte>> pieces) {
  const std::filesystem::path temporary = temporary_beside(path);
  int error = fill(temporary, pieces);
  if (error == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlink(temporary.c_str());
    return system_error("write", path, error);
  }
  // Without this the new name itself may be lost in a crash. Some file systems cannot sync a folder: not an
  // error.
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (Descriptor handle(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)); handle.is_open()) {
    ::fsync(handle.get());
  }
  return Status::ok();
}

Status write_file_atomically(const std::filesystem::path& path,
                             std::initializer_list<std::span<const std::byte>> pieces) {
  return write_file_atomically(path, std::span(pieces.begin(), pieces.size()));
}

Status write_file_atomically(const std::filesystem::path& path, std::string_view text) {
  return write_file_atomically(path, {std::as_bytes(std::span(text))});
}

Result<std::string> read_file(const std::filesystem::path& path, std::size_t bytes_max) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return system_error("read", path, errno);
  struct stat info = {};
  if (::fstat(file.get(), &info) != 0) return system_error("read", path, errno);
  if (!S_ISREG(info.st_mode)) return unavailable("cannot read " + path.string() + ": not a regular file");
  if (static_cast<std::size_t>(info.st_size) > bytes_max) {
    return resource_exhausted("cannot read " + path.string() + ": " + std::to_string(info.st_size) +
                              " bytes, expected at most " + std::to_string(bytes_max));
  }
  std::string content(static_cast<std::size_t>(info.st_size), '\0');
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t got = ::read(file.get(), content.data() + done, content.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error("read", path, errno);
    if (got == 0) break;  // shortened while it was read
    done += static_cast<std::size_t>(got);
  }
  content.resize(done);
  return content;
}

}  // namespace paceline
