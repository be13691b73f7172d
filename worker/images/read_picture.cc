#include "worker/images/read_picture.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "common/files/descriptor.h"

namespace paceline {
namespace {

// Bytes [offset, offset + size) into `bytes`; fewer where the file has become shorter.
Status read_part(const Descriptor& open, const std::filesystem::path& file, std::size_t offset,
                 std::size_t size, std::vector<std::uint8_t>& bytes) {
  bytes.resize(size);
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got =
        ::pread(open.get(), bytes.data() + done, size - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_error("read", file, errno);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
  return Status::ok();
}

Result<std::size_t> size_of(const Descriptor& open, const std::filesystem::path& file) {
  if (!open.is_open()) {
    const int error = errno;
    const bool is_ours = error == EMFILE || error == ENFILE || error == ENOMEM;
    Status fault = file_error("open", file, error);
    return is_ours ? resource_exhausted(fault.message()) : fault;
  }
  struct stat about{};
  if (::fstat(open.get(), &about) != 0) return file_error("read", file, errno);
  if (!S_ISREG(about.st_mode)) return unavailable("cannot read " + file.string() + ": it is no regular file");
  const auto size = static_cast<std::size_t>(about.st_size);
  if (size <= kEncodedBytesMax) return size;
  return invalid_argument(file.string() + " has " + std::to_string(size) + " bytes, expected at most " +
                          std::to_string(kEncodedBytesMax));
}

Descriptor open_file(const std::filesystem::path& file) {
  return Descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a pipe must not stop us
}

}  // namespace

Result<std::int64_t> read_picture(const std::filesystem::path& file, std::vector<std::uint8_t>& bytes,
                                  std::size_t bytes_max) {
  const Descriptor open = open_file(file);
  PACELINE_ASSIGN_OR_RETURN(const std::size_t size, size_of(open, file));
  PACELINE_RETURN_IF_ERROR(read_part(open, file, 0, std::min(size, bytes_max), bytes));
  return static_cast<std::int64_t>(size);
}

Status read_picture_tail(const std::filesystem::path& file, std::vector<std::uint8_t>& bytes,
                         std::size_t bytes_max) {
  const Descriptor open = open_file(file);
  PACELINE_ASSIGN_OR_RETURN(const std::size_t size, size_of(open, file));
  const std::size_t wanted = std::min(size, bytes_max);
  return read_part(open, file, size - wanted, wanted, bytes);
}

}  // namespace paceline
