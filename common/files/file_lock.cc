// flock on a descriptor of its own.
#include "common/files/file_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace paceline {
namespace {

// Whether it is that file still: its holder may have removed it between its opening here and its lock, and then its
// name is free for another one's.
bool names(const std::filesystem::path& file, int opened) {
  struct stat own = {}, named = {};
  return ::fstat(opened, &own) == 0 && ::stat(file.c_str(), &named) == 0 && own.st_dev == named.st_dev &&
         own.st_ino == named.st_ino;
}

}  // namespace

Result<FileLock> lock_file(const std::filesystem::path& file, LockFile lock) {
  const auto reason = [] { return std::generic_category().message(errno); };
  const auto close = [](const int* descriptor) {
    ::close(*descriptor);
    delete descriptor;
  };
  constexpr int kTries = 10;
  for (int i = 0; i < kTries; ++i) {
    const int opened = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (opened < 0) return unavailable("cannot open " + file.string() + ": " + reason());
    FileLock taken{std::shared_ptr<const int>(new int(opened), close), ""};
    if (lock(opened, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return failed_precondition(file.string() + " is held by another process");
      taken.warning = "cannot lock " + file.string() + ": " + reason();
      return taken;
    }
    if (names(file, opened)) return taken;
  }
  return failed_precondition(file.string() + " is removed by another process again and again");
}

}  // namespace paceline
