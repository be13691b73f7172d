// Memory that two processes of one machine see: a segment that its owner writes and that others map read-only
// (docs/PROTOCOL.md, 8). A payload that lies in it need not be sent.
//
// A segment is a memfd: it has no name and vanishes with its owner and the last who maps it, whoever dies
// and however. Seals fix its size, so that no reader can run off its end (SIGBUS), and since Linux 5.1 they
// also forbid to map it for writing again and to take pages out of it. It is opened through
// /proc/<process>/fd/<descriptor>, which the same user on the same machine can; a number of another container
// leads elsewhere or nowhere, which the token tells.
//
// A segment has a size, but only as many pages as were handed out, from its begin without a gap. To read
// where there is none would make one, and the reader would pay for it: so readers stay in front of the first
// gap, and a segment that says to be larger than is agreed is not mapped at all.
//
// Only shared_memory.cc sees memfd and /proc.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "common/wire/pin.h"

namespace paceline::wire {

// Where a segment is found, and how it is known to be the right one: said in messages.
struct SegmentRef {
  std::uint32_t process = 0;
  std::uint32_t descriptor = 0;
  std::int64_t bytes = 0;
  std::uint64_t token_high = 0;  // the random number at the segment's begin
  std::uint64_t token_low = 0;

  bool operator==(const SegmentRef&) const = default;
};

// A segment of this process, as a source of memory. What does not fit into it comes from the heap, and its
// payloads are sent. Memory given back is used again, lowest address first; the system gets it back with the
// segment, so the process keeps its peak, as with wire/memory.h. Pages are made when they are first handed
// out; where the system has none left the segment counts as full.
//
// Thread: any.
class SharedSegment final : public std::pmr::memory_resource {
 public:
  // Room for at least `bytes` > 0. Errors: kUnavailable, with the system's reason.
  static Result<std::shared_ptr<SharedSegment>> create(std::int64_t bytes);
  ~SharedSegment() override;
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  const SegmentRef& ref() const { return ref_; }
  // Where these bytes lie in the segment; nothing when they do not.
  std::optional<std::int64_t> offset_of(const std::byte* data, std::size_t size) const;

 private:
  SharedSegment(int descriptor, std::byte* begin, SegmentRef ref);
  bool make_pages(std::int64_t end);
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  const int descriptor_;
  std::byte* const begin_;
  const SegmentRef ref_;
  std::mutex mutex_;
  std::map<std::int64_t, std::int64_t> free_;  // offset -> bytes, no two adjacent
  std::int64_t paged_ = 0;                     // bytes from the begin that have pages, whole pages
};

// Another process's segment, readable here for as long as this lives, whatever becomes of its owner.
//
// Its pages are pinned (pin.h) when one of them is first read, all at once that are known to be there and are
// not pinned yet: so once for each time that it has grown, and no page is made by it.
//
//   there     |###########|        part() of some of it: pin   0 … a
//   later     |################|   part() after a:      pin   a … b
//
// Thread: any.
class MappedSegment {
 public:
  // Errors: kUnavailable it cannot be opened or mapped, is no segment of that size and token, or has room for
  // more than `bytes_max` (SharedSegment::create).
  static Result<std::shared_ptr<const MappedSegment>> map(const SegmentRef& ref, std::int64_t bytes_max,
                                                          Pin pin = {});
  ~MappedSegment();
  MappedSegment(const MappedSegment&) = delete;
  MappedSegment& operator=(const MappedSegment&) = delete;

  std::int64_t size() const { return static_cast<std::int64_t>(bytes_.size()); }
  // Whether its owner has pages for all its bytes before `end` <= size(), so that reading them makes none.
  bool has_pages_to(std::int64_t end) const;
  // Its bytes [offset, offset + bytes), which lie within it, where has_pages_to() was asked for; pinned, if
  // they can be.
  std::span<const std::byte> part(std::int64_t offset, std::int64_t bytes) const;

 private:
  MappedSegment(int descriptor, std::span<const std::byte> bytes, Pin pin)
      : descriptor_(descriptor), bytes_(bytes), pin_(std::move(pin)) {}
  void pin_to(std::int64_t end) const;

  const int descriptor_;
  const std::span<const std::byte> bytes_;
  const Pin pin_;
  mutable std::atomic<std::int64_t> paged_{0};   // has_pages_to() so far
  mutable std::atomic<std::int64_t> pinned_{0};  // bytes from the begin that were to be pinned
  mutable std::mutex mutex_;                     // pins one at a time
  mutable std::vector<std::shared_ptr<void>> pins_;
};

}  // namespace paceline::wire
