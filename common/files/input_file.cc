#include "common/files/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace paceline {

Result<InputFile> InputFile::open(std::filesystem::path path) {
  // A name that is a pipe's must not keep us waiting for its writer.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) return file_error("read", path, errno);
  struct stat info = {};
  if (::fstat(file.get(), &info) != 0) return file_error("read", path, errno);
  if (!S_ISREG(info.st_mode)) return unavailable("cannot read " + path.string() + ": not a regular file");
  const auto size = static_cast<std::uint64_t>(info.st_size);
  return InputFile(std::move(path), std::move(file), size);
}

Result<std::size_t> InputFile::read(std::span<std::byte> into) {
  std::size_t done = 0;
  while (done < into.size()) {
    const ssize_t got = ::read(file_.get(), into.data() + done, into.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_error("read", path_, errno);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

}  // namespace paceline
