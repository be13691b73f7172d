// memfd, seals, mappings, and a first-fit list of free pages.
#include "common/wire/shared_memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/assert.h"
#include "common/process/descriptors.h"

namespace paceline::wire {
namespace {

// Memory is given out in cache lines, which are also what blocks are aligned to; the first holds the token.
constexpr std::int64_t kLine = 64;
constexpr const char* kName = "paceline";
// What /proc/<process>/fd/<descriptor> of a segment reads.
constexpr const char* kLink = "/memfd:paceline (deleted)";
// Since Linux 5.1; older ones go without.
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
// Since Linux 5.14.
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

struct Token {
  std::uint64_t high;
  std::uint64_t low;
};

// The end of the page that `end` lies in.
std::int64_t whole_pages(std::int64_t end) {
  const std::int64_t page = ::sysconf(_SC_PAGESIZE);
  return (end + page - 1) / page * page;
}

std::int64_t whole_lines(std::size_t bytes) {
  return (static_cast<std::int64_t>(bytes) + kLine - 1) / kLine * kLine;
}

// Of one with room for `bytes`.
std::int64_t segment_size(std::int64_t bytes) { return kLine + whole_lines(static_cast<std::size_t>(bytes)); }

Status failed(const std::string& what, int error) {
  return unavailable(what + ": " + std::generic_category().message(error));
}

class Descriptor {
 public:
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  ~Descriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return descriptor_; }
  int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_;
};

// Beyond the limit on file sizes ftruncate() would end the process with SIGXFSZ.
Status check_file_size_limit(std::int64_t bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= static_cast<rlim_t>(bytes)) {
    return Status::ok();
  }
  return unavailable("a shared segment of " + std::to_string(bytes) + " bytes: files are limited to " +
                     std::to_string(limit.rlim_cur));
}

// Without it whoever owns a segment may take pages out of it.
bool keeps_pages_seal_is_known() {
  static const bool known = [] {
    const Descriptor probe(::memfd_create(kName, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    return probe.get() >= 0 && ::fcntl(probe.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0;
  }();
  return known;
}

Status check_segment(int descriptor, const SegmentRef& ref) {
  struct stat about = {};
  struct statfs system = {};
  if (::fstat(descriptor, &about) != 0) return failed("fstat", errno);
  if (::fstatfs(descriptor, &system) != 0) return failed("fstatfs", errno);
  if (!S_ISREG(about.st_mode) || system.f_type != TMPFS_MAGIC) return unavailable("it is no shared memory");
  const int seals = ::fcntl(descriptor, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return unavailable("it may shrink");
  if (keeps_pages_seal_is_known() && (seals & F_SEAL_FUTURE_WRITE) == 0) {
    return unavailable("it may lose pages");
  }
  if (about.st_size >= ref.bytes && ref.bytes >= kLine) return Status::ok();
  return unavailable("it has " + std::to_string(about.st_size) + " bytes, expected " +
                     std::to_string(ref.bytes));
}

}  // namespace

Result<std::shared_ptr<SharedSegment>> SharedSegment::create(std::int64_t bytes) {
  const std::int64_t size = segment_size(bytes);
  PACELINE_RETURN_IF_ERROR(check_file_size_limit(size));
  Descriptor descriptor(::memfd_create(kName, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (descriptor.get() < 0) return failed("a shared segment: memfd_create", errno);
  if (::ftruncate(descriptor.get(), size) != 0) {
    return failed("a shared segment of " + std::to_string(size) + " bytes", errno);
  }
  void* const memory = ::mmap(nullptr, static_cast<std::size_t>(size), PROT_READ | PROT_WRITE, MAP_SHARED,
                              descriptor.get(), 0);
  if (memory == MAP_FAILED) {
    return failed("mapping a shared segment of " + std::to_string(size) + " bytes", errno);
  }
  std::random_device entropy;
  const auto random = [&] { return (std::uint64_t{entropy()} << 32) | entropy(); };
  const Token token{random(), random()};
  const SegmentRef ref{static_cast<std::uint32_t>(::getpid()), static_cast<std::uint32_t>(descriptor.get()),
                       size, token.high, token.low};
  std::shared_ptr<SharedSegment> segment(
      new SharedSegment(descriptor.release(), static_cast<std::byte*>(memory), ref));
  // The mapping that is there stays writable; where the system does not know this seal, others may write.
  (void)::fcntl(segment->descriptor_, F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
  if (::fcntl(segment->descriptor_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return failed("sealing a shared segment", errno);
  }
  // Where the system offers huge pages for shared memory; elsewhere it says no.
  (void)::madvise(memory, static_cast<std::size_t>(size), MADV_HUGEPAGE);
  if (!segment->make_pages(kLine))
    return unavailable("a shared segment: there is no memory for its first page");
  std::memcpy(memory, &token, sizeof token);
  return segment;
}

SharedSegment::SharedSegment(int descriptor, std::byte* begin, SegmentRef ref)
    : descriptor_(descriptor), begin_(begin), ref_(ref), free_{{kLine, ref.bytes - kLine}} {}

// Up to `end`, all of them. Left to the first write, a page that cannot be had would be a SIGBUS.
bool SharedSegment::make_pages(std::int64_t end) {
  if (end <= paged_) return true;
  const std::int64_t begin = std::exchange(paged_, whole_pages(end));
  const auto bytes = static_cast<std::size_t>(paged_ - begin);
  int made = 0;
  do {
    made = ::madvise(begin_ + begin, bytes, MADV_POPULATE_WRITE);
  } while (made != 0 && (errno == EINTR || errno == EAGAIN));
  if (made == 0) return true;
  const bool unknown = errno == EINVAL;
  if (unknown && ::fallocate(descriptor_, 0, begin, std::min(paged_, ref_.bytes) - begin) == 0) {
    // What was never touched is not told from a gap.
    for (std::int64_t at = begin; at < paged_; at = whole_pages(at + 1)) begin_[at] = std::byte{0};
    return true;
  }
  paged_ = begin;
  return false;
}

SharedSegment::~SharedSegment() {
  ::munmap(begin_, static_cast<std::size_t>(ref_.bytes));
  ::close(descriptor_);
}

std::optional<std::int64_t> SharedSegment::offset_of(const std::byte* data, std::size_t size) const {
  const auto at = reinterpret_cast<std::uintptr_t>(data) - reinterpret_cast<std::uintptr_t>(begin_);
  const auto all = static_cast<std::uintptr_t>(ref_.bytes);
  if (at >= all || size > all - at) return std::nullopt;
  return static_cast<std::int64_t>(at);
}

void* SharedSegment::do_allocate(std::size_t bytes, std::size_t alignment) {
  PACELINE_ASSERT(alignment <= static_cast<std::size_t>(kLine), "an alignment of more than a cache line");
  const std::int64_t wanted = whole_lines(std::max<std::size_t>(bytes, 1));
  {
    const std::lock_guard lock(mutex_);
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      const auto [offset, room] = *it;
      if (room < wanted) continue;
      if (!make_pages(offset + wanted)) break;
      free_.erase(it);
      if (room > wanted) free_.emplace(offset + wanted, room - wanted);
      return begin_ + offset;
    }
  }
  return std::pmr::new_delete_resource()->allocate(bytes, alignment);
}

void SharedSegment::do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) {
  const std::optional<std::int64_t> offset = offset_of(static_cast<const std::byte*>(memory), bytes);
  if (!offset) return std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
  const std::lock_guard lock(mutex_);
  auto [freed, fresh] = free_.emplace(*offset, whole_lines(std::max<std::size_t>(bytes, 1)));
  PACELINE_ASSERT(fresh, "memory of a shared segment is given back twice");
  if (const auto next = std::next(freed);
      next != free_.end() && freed->first + freed->second == next->first) {
    freed->second += next->second;
    free_.erase(next);
  }
  if (freed == free_.begin()) return;
  if (const auto before = std::prev(freed); before->first + before->second == freed->first) {
    before->second += freed->second;
    free_.erase(freed);
  }
}

Result<std::shared_ptr<const MappedSegment>> MappedSegment::map(const SegmentRef& ref, std::int64_t bytes_max,
                                                                Pin pin) {
  const std::string path = "/proc/" + std::to_string(ref.process) + "/fd/" + std::to_string(ref.descriptor);
  const auto refused = [&](const Status& why) { return Status(why).with_context("the segment at " + path); };
  if (ref.bytes > segment_size(bytes_max)) {
    return refused(unavailable("it has " + std::to_string(ref.bytes) + " bytes, expected at most " +
                               std::to_string(segment_size(bytes_max))));
  }
  // Looked at before it is opened: opening may do something to a file that is no segment.
  char target[64];
  const ssize_t length = ::readlink(path.c_str(), target, sizeof target);
  if (length < 0) return refused(failed("it cannot be read", errno));
  if (std::string_view(target, static_cast<std::size_t>(length)) != kLink) {
    return refused(unavailable("it is another file"));
  }
  Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (descriptor.get() < 0) return refused(failed("it cannot be opened", errno));
  if (!spares_descriptors_for_files(descriptor.get())) {
    return refused(unavailable("this process has no descriptor to spare (ulimit -n)"));
  }
  if (const Status right = check_segment(descriptor.get(), ref); !right.is_ok()) return refused(right);
  const auto size = static_cast<std::size_t>(ref.bytes);
  void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor.get(), 0);
  if (memory == MAP_FAILED) return refused(failed("it cannot be mapped", errno));
  std::shared_ptr<const MappedSegment> mapped(
      new MappedSegment(descriptor.release(), {static_cast<const std::byte*>(memory), size}, std::move(pin)));
  if (!mapped->has_pages_to(kLine)) return refused(unavailable("it is empty"));
  Token token{};
  std::memcpy(&token, memory, sizeof token);
  if (token.high != ref.token_high || token.low != ref.token_low) {
    return refused(unavailable("it belongs to another process of that number"));
  }
  return mapped;
}

MappedSegment::~MappedSegment() {
  // While the pages are mapped: a device would read them, and whoever asks take it for pinned what is mapped
  // there next.
  pins_.clear();
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  ::close(descriptor_);
}

// Asked only when more is wanted than ever before: pages stay.
bool MappedSegment::has_pages_to(std::int64_t end) const {
  if (end <= paged_.load(std::memory_order_relaxed)) return true;
  const ::off_t gap = ::lseek(descriptor_, paged_.load(std::memory_order_relaxed), SEEK_HOLE);
  if (gap < 0) return false;
  paged_.store(gap, std::memory_order_relaxed);
  return end <= gap;
}

std::span<const std::byte> MappedSegment::part(std::int64_t offset, std::int64_t bytes) const {
  if (pin_ != nullptr) pin_to(offset + bytes);
  return bytes_.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(bytes));
}

// Before anybody has what lies there: that memory is pinned is asked when it is used, and must not change
// then. What could not be pinned is not tried again.
void MappedSegment::pin_to(std::int64_t end) const {
  if (end <= pinned_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(mutex_);
  const std::int64_t begin = pinned_.load(std::memory_order_relaxed);
  const std::int64_t paged = paged_.load(std::memory_order_relaxed);
  if (end <= begin || paged <= begin) return;
  // Only the last page of all can have bytes after the segment's end.
  const auto pages = static_cast<std::size_t>(whole_pages(paged) - begin);
  if (std::shared_ptr<void> pin = pin_({bytes_.data() + begin, pages})) pins_.push_back(std::move(pin));
  pinned_.store(paged, std::memory_order_release);
}

}  // namespace paceline::wire
