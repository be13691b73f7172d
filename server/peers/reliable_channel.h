// What the authority and another shard say to each other, in order, as one of the two sees it: where their
// connection breaks while both live, nothing of it is lost or received twice. Each end keeps what it has sent
// until the other acknowledges it, and both count.
//
//   (connection 1 breaks)
//   shard      ShardJoin{goes_on, acked 17} over connection 2   ->   authority: gives connection 1 up
//         <-   ShardWelcome{acked 41}, its 18th, 19th … again
//   its 42nd, 43rd … again                                      ->
//
// What belongs to one connection does not count: joins, welcomes, the authority's refusals, and heartbeats,
// which acknowledge.
//
// Memory: what one end has sent since the other one last acknowledged. It does so with each
// heartbeat, after kAckAfter messages, and at once after a message with a payload or a shard's last word,
// since the shard waits for that before it ends. Of an end that never does, ack_overdue() in the end.
//
// Pure. Thread: one at a time (the server's loop).
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <variant>

#include "common/status.h"
#include "common/wire/messages.h"

namespace paceline::server {

class ReliableChannel {
 public:
  static constexpr std::int64_t kAckAfter = 64;
  static constexpr std::size_t kUnackedMax = 1 << 16;

  enum class End { kAuthority, kShard };
  explicit ReliableChannel(End end = End::kAuthority) : end_(end) {}

  // Of what `speaker` says. A shard's Error says that it cannot do what it was told to.
  static bool counts(const wire::Body& body, End speaker) {
    if (std::holds_alternative<wire::Error>(body)) return speaker == End::kShard;
    return !(std::holds_alternative<wire::Heartbeat>(body) || std::holds_alternative<wire::ShardJoin>(body) ||
             std::holds_alternative<wire::ShardWelcome>(body));
  }

  // This end sends it, over a connection or when there is one again.
  void on_send(const wire::Message& message) {
    if (counts(message.body, end_)) unacked_.push_back(message);
  }

  // This end has received it. True: an acknowledgement is due now.
  bool on_receive(const wire::Message& message) {
    if (!counts(message.body, end_ == End::kShard ? End::kAuthority : End::kShard)) return false;
    ++received_;
    const bool last = std::holds_alternative<wire::ShardReport>(message.body);
    return received_ - acked_ >= kAckAfter || !message.payload.empty() || last;
  }

  // How many this end has received, for the other.
  std::int64_t ack() { return acked_ = received_; }

  // The other end has received so many of ours. Errors: kInvalidArgument fewer than it acknowledged before, or more
  // than there were.
  [[nodiscard]] Status on_ack(std::int64_t count) {
    const std::int64_t most = confirmed_ + static_cast<std::int64_t>(unacked_.size());
    if (count < confirmed_ || count > most) {
      return invalid_argument("messages acknowledged: got " + std::to_string(count) + ", expected " +
                              std::to_string(confirmed_) + " to " + std::to_string(most));
    }
    unacked_.erase(unacked_.begin(), unacked_.begin() + (count - confirmed_));
    confirmed_ = count;
    return Status::ok();
  }

  // The other end has not said for so many messages what it has received that it never will.
  bool ack_overdue() const { return unacked_.size() > kUnackedMax; }

  // What is to be sent again over another connection, in order.
  const std::deque<wire::Message>& unacked() const { return unacked_; }

 private:
  End end_;
  std::deque<wire::Message> unacked_;
  std::int64_t confirmed_ = 0;  // of ours, that the other end has received
  std::int64_t received_ = 0;
  std::int64_t acked_ = 0;  // of those, that it knows
};

}  // namespace paceline::server
