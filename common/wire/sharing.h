// Sharing: what one connection does with shared memory. Each side lends: a payload that lies in its segment
// is not sent; the header says where it lies, under a number, and its owner is kept here until the peer says
// that it has let go of that number. And each side borrows: what it receives points into the peer's segment,
// and dropping it, on any thread, is what lets go of it.
//
//   lend() 7 ── header{region 7} ──►  borrow() 7: a Payload in the mapping
//   owner kept                        ... read ... dropped
//   let_go() 7: owner dropped  ◄── header{let_go 7}
//
// What is let go of is said together: on the next message that leaves anyway, or in one of its own when
// nothing is held any more, when kReleaseBatch numbers have gathered, or after kReleaseAfter.
//
// A peer that dies lets go of nothing; when its connection is given up, and its Sharing with it, all that is
// lent comes back. That a connection broke is no reason: the peer may live and read. What is borrowed
// outlives both, and the peer: what it had said before it died can still be read. Once no more of that is
// wanted, unmap() gives its memory back to the system.
//
// Payloads are shared in both directions or in none: whoever cannot read the other's memory says so by saying
// nothing, and gets and sends frames.
//
// Only float32 is lent: its bytes may change while they are read, which makes wrong values of floats, but of
// a position (Encoding::kTopK) one that has been checked and is another one when it is used.
//
// Thread: the socket's; borrowed payloads are dropped on any.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "common/status.h"
#include "common/wire/codec.h"
#include "common/wire/messages.h"
#include "common/wire/shared_memory.h"

namespace paceline::wire {

class Sharing {
 public:
  static constexpr std::size_t kReleaseBatch = 16;
  static constexpr std::chrono::milliseconds kReleaseAfter{1};
  // A smaller payload is copied into its frame: that costs less than letting go of it.
  static constexpr std::size_t kLentBytesMin = 1025;

  // Of the peer's segment at most `theirs_bytes_max` are mapped, and what is read of it is pinned. `wake` is
  // called, from any thread, when due() is to be asked; not any more once this is gone.
  Sharing(std::shared_ptr<SharedSegment> ours, std::int64_t theirs_bytes_max, std::function<void()> wake,
          Pin pin = {});
  ~Sharing();
  Sharing(const Sharing&) = delete;
  Sharing& operator=(const Sharing&) = delete;

  // The peer's segment, the first time that it is announced. Errors: as MappedSegment::map; kUnavailable it
  // is our own.
  Status map(const SegmentRef& theirs);
  bool maps() const { return theirs_ != nullptr; }
  // Nothing more is borrowed: the mapping goes with the last payload that lies in it.
  void unmap();
  bool unmapped() const { return unmapped_; }
  // Whether payloads are shared in both directions, and if not, why.
  Status state() const;

  // Adds to a header that is about to leave what is to be said; retract() when it did not leave.
  void announce(Beside& beside);
  void retract(const Beside& beside);
  // Where the payload lies, if it can be lent to the peer; its owner is kept. For a header that announce() was
  // called with.
  std::optional<Region> lend(const Payload& payload);
  // What is lent now, for whoever has to keep it when this is gone, since the peer may go on reading it.
  std::shared_ptr<const void> keep_lent() const;

  // What came in a header. Errors: kInvalidArgument the peer lets go of what was not lent to it.
  Status on_receive(const Beside& beside);
  // Its owner keeps the segment mapped, and pinned what is: a device may read it for as long as the payload
  // is held. Errors: kInvalidArgument outside the peer's segment, or where that has no pages. Not once it is
  // unmapped.
  Result<Payload> borrow(const Region& region);

  // Whether what has been let go of is to be said now; if not, it is in kReleaseAfter (unless there is nothing).
  bool due();

  std::size_t lent() const { return lent_.size(); }

 private:
  struct LetGo;
  struct Borrowed;

  const std::shared_ptr<SharedSegment> ours_;
  const std::int64_t theirs_bytes_max_;
  const Pin pin_;
  const std::shared_ptr<LetGo> let_go_;
  std::shared_ptr<const MappedSegment> theirs_;
  Status mapped_ = unavailable("the peer announces no memory");
  bool announced_ = false;  // our segment
  bool sent_reads_segment_ = false;
  bool they_read_ = false;
  bool unmapped_ = false;
  std::uint64_t next_number_ = 1;
  std::unordered_map<std::uint64_t, std::shared_ptr<const void>> lent_;
};

}  // namespace paceline::wire
