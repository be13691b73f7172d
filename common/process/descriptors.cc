#include "common/process/descriptors.h"

#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace {

std::atomic<std::uint32_t> kept_for_files{0};

// The system's function of that name, or the one of a sanitizer before it.
template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// What the system has `accepted`, but for two things. Descriptors are given out lowest first, so one that is
// among the highest `kept_for_files` says that there are no others: it is closed, and the caller hears of a
// connection that has gone. Where there is none at all the connection stays in the system's queue, and the
// caller hears that there is nothing to accept: of EMFILE ZeroMQ dies, over ipc (ipc_listener.cpp).
int admitted(int accepted) {
  const std::uint32_t kept = kept_for_files.load(std::memory_order_relaxed);
  if (kept == 0) return accepted;
  if (accepted < 0) {
    if (errno == EMFILE || errno == ENFILE) errno = EAGAIN;
    return accepted;
  }
  if (paceline::spares_descriptors_for_files(accepted)) return accepted;
  close(accepted);
  errno = ECONNABORTED;
  return -1;
}

}  // namespace

extern "C" int accept4(int listener, sockaddr* address, socklen_t* size, int flags) {
  static auto* const system = next<decltype(::accept4)>("accept4");
  return admitted(system(listener, address, size, flags));
}

extern "C" int accept(int listener, sockaddr* address, socklen_t* size) {
  static auto* const system = next<decltype(::accept)>("accept");
  return admitted(system(listener, address, size));
}

namespace paceline {
namespace {

std::uint64_t count_of(rlim_t limit) { return limit == RLIM_INFINITY ? kUnlimited : limit; }

}  // namespace

void raise_descriptor_limit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);  // who may not has what there was
}

std::uint64_t descriptor_limit() {
  rlimit limit = {};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? count_of(limit.rlim_cur) : kUnlimited;
}

void keep_descriptors_for_files(std::uint32_t count) { kept_for_files = count; }

bool spares_descriptors_for_files(int descriptor) {
  const std::uint64_t limit = descriptor_limit();
  const std::uint64_t kept = kept_for_files.load(std::memory_order_relaxed);
  return kept == 0 || limit == kUnlimited || static_cast<std::uint64_t>(descriptor) + kept < limit;
}

Status check_descriptors(std::uint64_t needed, const std::string& what) {
  const std::uint64_t limit = descriptor_limit();
  if (limit >= needed) return Status::ok();
  return failed_precondition(what + " needs at least " + std::to_string(needed) +
                             " open files, and this process may open " + std::to_string(limit) +
                             " (ulimit -Hn " + std::to_string(needed) + ")");
}

}  // namespace paceline
