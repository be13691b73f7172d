// Unread: how many small messages of a router wait for each of its peers. Small are those without a payload,
// and those of whose payload ZeroMQ has a copy. (The others say themselves when they have left; who sends
// them bounds how many are on their way.) Without it ZeroMQ would keep 65,536 for a peer that asks and
// reads no answer, and it does not say how many it keeps.
//
// So one message in 32 is marked: ZeroMQ lets go of it when it has left, and its queues are in order.
//
//   sent                      1 … 31  32 33 … 100
//   marked                            32           the next once that has left
//   waiting, 32 not left      100
//   waiting, 32 left            0, as far as is known; the 101st is marked, and 69 wait until that has left
//
// So few are counted as waiting for a peer that reads, and all for one that does not.
//
// Thread: the socket's; marks are let go of on any.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

namespace paceline::wire {

// A message that is marked: once it has left, or its connection has ended, `left` becomes `number`.
struct Mark {
  std::shared_ptr<std::atomic<std::int64_t>> left;
  std::int64_t number = 0;
};

// Up to this ZeroMQ is given a copy of a payload; beyond it sending from the caller's memory was measured
// faster at every size (by a fifth).
inline constexpr std::size_t kCopiedBytesMax = 1024;

class Unread {
 public:
  static constexpr std::int64_t kMarkEvery = 32;

  class Queue {
   public:
    // How many of those sent are not known to have left; 0 when none is known not to have.
    std::int64_t waiting() const { return is_marked() ? sent_ - left() : 0; }
    // The mark of the message that is sent now, if it is to have one.
    std::optional<Mark> mark() const {
      if (is_marked() || sent_ + 1 - left() < kMarkEvery) return std::nullopt;
      return Mark{left_, sent_ + 1};
    }
    // It was sent, with that mark.
    void sent(const std::optional<Mark>& mark) {
      ++sent_;
      if (mark) marked_ = mark->number;
    }
    // A marked message is on its way.
    bool is_marked() const { return left() < marked_; }

   private:
    std::int64_t left() const { return left_->load(std::memory_order_acquire); }

    std::int64_t sent_ = 0;
    std::int64_t marked_ = 0;  // the number of the last one that was
    std::shared_ptr<std::atomic<std::int64_t>> left_ = std::make_shared<std::atomic<std::int64_t>>(0);
  };

  // Valid until the next call. Nobody tells of peers that have gone. So when there are many, those to whom no
  // marked message is on its way are forgotten. Of one that is still there the count begins anew, and is at
  // most twice what it would have been.
  Queue& of(const std::string& peer);
  std::int64_t waiting(const std::string& peer) const;
  // The peer is gone: nothing waits for it.
  void forget(const std::string& peer) { queues_.erase(peer); }
  std::size_t peers() const { return queues_.size(); }

 private:
  static constexpr std::size_t kPeersAtLeast = 256;
  std::unordered_map<std::string, Queue> queues_;
  std::size_t forget_at_ = kPeersAtLeast;  // so many are looked through
};

}  // namespace paceline::wire
