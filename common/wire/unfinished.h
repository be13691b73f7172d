// Unfinished: the connections that may be sending a message without an end. ZeroMQ hands out whole messages
// only and buffers an unfinished one without bound, whatever its high-water mark (which counts messages) and
// its maximum message size (which is a frame's) say. So a stranger could fill this process's memory with
// frames that each announce another.
//
// A connection can have one unfinished message at a time. When every finished one has been read, what it sent
// since the last of them is what ZeroMQ holds of the next:
//
//   held = bytes received by the kernel - bytes it still has - the same at the last look that found a message
//
//   look   received - unread   message since the last look   held
//     1          1.1 MiB       yes: a new start                0
//     2          1.9 MiB       no                            0.8 MiB
//     3          9.6 MiB       no                            8.5 MiB, more than a message may have: broken
//
// What arrives between two looks is never held against a connection that finished a message in between, so
// nobody who sends messages is broken by mistake. The kernel counts bytes for TCP alone: connections of
// another kind are not watched.
//
// Thread: one; the descriptors are another thread's, which may close them at any time (socket_id.h).
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "common/wire/socket_id.h"

namespace paceline::wire {

class Unfinished {
 public:
  // How much may be held of one connection when every finished message has been read, and how much when some
  // wait to be read, which are then counted, too.
  Unfinished(std::int64_t held_bytes_max, std::int64_t held_bytes_max_unread)
      : held_bytes_max_(held_bytes_max), held_bytes_max_unread_(held_bytes_max_unread) {}

  // A connection has come into being.
  void accepted(int descriptor);
  // A whole message that came over it was read.
  void read_from(int descriptor) { read_from_.insert(descriptor); }

  // Breaks the connections that are beyond their bound, and names them in `which`; returns how many. Every
  // accepted() must have been said. `all_read`, asked once after the measuring: whether no finished message
  // waits to be read.
  int break_up(const std::function<bool()>& all_read, std::vector<SocketId>& which);

 private:
  struct Connection {
    SocketId socket;
    std::int64_t taken = 0;         // by ZeroMQ, as of now
    std::int64_t taken_before = 0;  // as of the last look that found a message
  };

  const std::int64_t held_bytes_max_;
  const std::int64_t held_bytes_max_unread_;
  std::unordered_map<int, Connection> connections_;  // by descriptor
  std::unordered_set<int> read_from_;                // since the last look
};

}  // namespace paceline::wire
