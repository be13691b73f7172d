#include "sweep/directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>

#include "common/config/load.h"
#include "common/files/atomic_file.h"

namespace paceline::sweep {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIdentity = "sweep.yaml";
constexpr const char* kLock = ".lock";
constexpr std::size_t kIdentityBytesMax = std::size_t{16} << 20;
// A sweep that was killed has its lock until the kernel is through with its processes. flock() that waits has
// no deadline, and a signal to cut it short would be the whole process's: so it is asked again and again.
constexpr std::chrono::milliseconds kLockWait{2000}, kLockRetry{20};

// The same for each way to name a folder, from wherever.
std::string real_path(const fs::path& path) {
  std::error_code error;
  const fs::path canonical = fs::weakly_canonical(path, error);
  return error ? path.string() : canonical.string();
}

std::string identity_of(const Points& points) {
  char number[32];
  std::snprintf(number, sizeof number, "%016llx", static_cast<unsigned long long>(points.fingerprint()));
  return "# What this directory is the sweep of (paceline sweep, docs/SIMULATOR.md).\n" +
         points.grid().to_yaml() + "trace: " + (points.trace() ? real_path(*points.trace()) : "null") +
         "\npoints: " + std::to_string(points.size()) + "\nconfigurations: " + number + "\n";
}

// The first line in which `ours` is another than `theirs`, for the message.
std::string difference(const std::string& theirs, const std::string& ours) {
  std::istringstream before(theirs), now(ours);
  std::string had, has;
  do {
    had.clear();
    has.clear();
    std::getline(before, had);
    std::getline(now, has);
  } while (had == has && before && now);
  if (has.starts_with("configurations:")) {
    return "what is below the grid was another: the configuration, the trace, the curve of simulate.metric "
           "or the data";
  }
  return "it had \"" + had + "\", got \"" + has + "\"";
}

Status another_sweep(const fs::path& out, const std::string& what) {
  return failed_precondition(out.string() + " is the directory of another sweep: " + what +
                             "; expected the same grid, configuration and trace, or another --out");
}

}  // namespace

Result<Directory> Directory::open(const fs::path& out, const Points& points) {
  std::error_code error;
  const bool is_sweep = fs::exists(out / kIdentity, error);
  if (!is_sweep && fs::exists(out, error)) {
    for (fs::directory_iterator it(out, error), end; !error && it != end; it.increment(error)) {
      const std::string name = it->path().filename().string();
      if (name.starts_with("."))
        continue;  // the lock of a sweep that got no further, and its temporary files
      return failed_precondition(out.string() + " holds something that is no sweep (" + name +
                                 "); expected an empty directory or another --out");
    }
    if (error) return unavailable("cannot read " + out.string() + ": " + error.message());
  }
  fs::create_directories(out, error);
  if (error) return unavailable("cannot make the directory " + out.string() + ": " + error.message());
  Directory directory(out);
  PACELINE_RETURN_IF_ERROR(directory.lock());
  const std::string ours = identity_of(points);
  if (!is_sweep) {
    PACELINE_RETURN_IF_ERROR(write_file_atomically(out / kIdentity, ours));
    return directory;
  }
  PACELINE_ASSIGN_OR_RETURN(const std::string theirs, read_file(out / kIdentity, kIdentityBytesMax));
  if (theirs != ours) return another_sweep(out, difference(theirs, ours));
  return directory;
}

Directory::Directory(Directory&& other) noexcept
    : out_(std::move(other.out_)), lock_(std::exchange(other.lock_, -1)) {}

Directory::~Directory() {
  if (lock_ >= 0) ::close(lock_);
}

Status Directory::lock() {
  const std::string path = (out_ / kLock).string();
  lock_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock_ < 0) return unavailable("cannot open " + path + ": " + std::strerror(errno));
  const auto give_up = std::chrono::steady_clock::now() + kLockWait;
  while (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return unavailable("cannot lock " + path + ": " + std::strerror(errno));
    }
    if (std::chrono::steady_clock::now() > give_up) {
      return failed_precondition("another sweep is going on in " + out_.string());
    }
    std::this_thread::sleep_for(kLockRetry);
  }
  return Status::ok();
}

fs::path Directory::run(const Points& points, std::size_t point) const {
  return out_ / points.grid().folder(point);
}

bool Directory::is_finished(const Points& points, std::size_t point) const {
  const fs::path run = this->run(points, point);
  std::error_code ignored;
  if (!fs::exists(run / "summary.json", ignored)) return false;
  const Result<RunConfig> config = load_config((run / "config.yaml").string(), {}, LoadFor::kReading);
  return config.is_ok() && points.is_config_of(point, *config);
}

Status Directory::begin(const Points& points, std::size_t point) const {
  const fs::path run = this->run(points, point);
  std::error_code error;
  fs::create_directories(run, error);
  if (error) return unavailable("cannot make the run directory " + run.string() + ": " + error.message());
  // First: a summary beside the new configuration would say that this point is finished.
  fs::remove(run / "summary.json", error);
  if (error) return unavailable("cannot remove " + (run / "summary.json").string() + ": " + error.message());
  RunConfig config = points.config(point);
  config.run.out = run.string();
  return write_file_atomically(run / "config.yaml", to_yaml(config));
}

}  // namespace paceline::sweep
