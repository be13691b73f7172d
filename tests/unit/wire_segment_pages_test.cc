// Where the system has no pages for a segment, or no way to make them ahead: what is handed out has pages or
// comes from the heap, and nobody meets a SIGBUS. The system is made so for a child process, by a filter on
// its calls (seccomp).
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>

#include "tests/unit/segments.h"

// Since Linux 5.14.
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace paceline::wire {
namespace {

constexpr int kNoFilter = 77;  // what a child says that may not filter its calls
constexpr std::size_t kMegabyte = 1 << 20;

// From now on this process's calls that make pages ahead fail with `error`.
bool pages_are_not_made(int error) {
  const auto advice = static_cast<std::uint32_t>(offsetof(seccomp_data, args[2]));  // little endian
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, advice),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MADV_POPULATE_WRITE, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{std::size(filter), filter};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

// In a child process, which says how it went: 0, or the number of what was not as expected.
template <typename Do>
void require_of_child(Do&& what) {
  const pid_t pid = child([&] { ::_exit(what()); });
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNoFilter) {
    WARN("calls cannot be filtered here: skipped");
    return;
  }
  CHECK(WEXITSTATUS(status) == 0);
}

bool lies_in(const SharedSegment& memory, void* p, std::size_t bytes) {
  return memory.offset_of(static_cast<std::byte*>(p), bytes).has_value();
}

}  // namespace

TEST_CASE("where pages cannot be made ahead, they are made otherwise") {
  require_of_child([] {
    if (!pages_are_not_made(EINVAL)) return kNoFilter;
    auto made = SharedSegment::create(kSegmentBytes);
    if (!made.is_ok()) return 1;
    const auto memory = std::move(made).value();
    void* const p = memory->allocate(kMegabyte);
    if (!lies_in(*memory, p, kMegabyte)) return 2;
    const std::int64_t page = ::sysconf(_SC_PAGESIZE);
    struct stat about = {};
    ::fstat(static_cast<int>(memory->ref().descriptor), &about);
    if (about.st_blocks * 512 != static_cast<std::int64_t>(kMegabyte) + page) return 3;
    const auto reader = MappedSegment::map(memory->ref(), kSegmentBytes);
    if (!reader.is_ok()) return 4;
    if (!reader.value()->has_pages_to(static_cast<std::int64_t>(kMegabyte))) return 5;
    std::memset(p, 7, kMegabyte);
    if (reader.value()->part(64, 1)[0] != std::byte{7}) return 6;
    memory->deallocate(p, kMegabyte);
    return 0;
  });
}

TEST_CASE("where the system has no pages left, memory comes from the heap, and a segment is not begun") {
  require_of_child([] {
    auto made = SharedSegment::create(kSegmentBytes);
    if (!made.is_ok()) return 1;
    const auto memory = std::move(made).value();
    void* const before = memory->allocate(kMegabyte);
    if (!pages_are_not_made(ENOMEM)) return kNoFilter;
    void* const heap = memory->allocate(kMegabyte);
    if (lies_in(*memory, heap, kMegabyte)) return 2;
    std::memset(heap, 1, kMegabyte);
    memory->deallocate(before, kMegabyte);
    void* const again = memory->allocate(kMegabyte);  // whose pages are there
    if (again != before) return 3;
    memory->deallocate(again, kMegabyte);
    memory->deallocate(heap, kMegabyte);
    const Status none = SharedSegment::create(kSegmentBytes).status();
    return none.message() == "a shared segment: there is no memory for its first page" ? 0 : 4;
  });
}

}  // namespace paceline::wire
