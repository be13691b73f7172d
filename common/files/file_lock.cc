// flock on a descriptor of its own.
#include "common/files/file_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace paceline {

Result<FileLock> lock_file(const std::filesystem::path& file, LockFile lock) {
  const auto reason = [] { return std::generic_category().message(errno); };
  const int opened = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (opened < 0) return unavailable("cannot open " + file.string() + ": " + reason());
  const auto close = [](const int* descriptor) {
    ::close(*descriptor);
    delete descriptor;
  };
  FileLock taken{std::shared_ptr<const int>(new int(opened), close), ""};
  if (lock(opened, LOCK_EX | LOCK_NB) == 0) return taken;
  if (errno == EWOULDBLOCK) return failed_precondition(file.string() + " is held by another process");
  taken.warning = "cannot lock " + file.string() + ": " + reason();
  return taken;
}

}  // namespace paceline
