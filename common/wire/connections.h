// Connections: the bound on how many connections a server's socket keeps, and what becomes of one that breaks
// the protocol. A connection is a member once it was admitted to the run; until it has said a join that fits
// it is a stranger. When there are too many, strangers are broken, the one that came first before the others:
// a node that has just come needs a moment, and who keeps a place without joining has had it.
//
//   at most 3   member 1   stranger 2   stranger 3   stranger 4 comes: 2 is broken
//
// Strangers over tcp that have sent nothing are broken before all others, and then those that have sent no
// more than ZeroMQ's greeting. A node sends more at once; what floods a port often connects and does no more.
//
// Over tcp and ipc. What ends by itself is not told of: it is looked for when the bound is reached.
//
// A message names its connection by the descriptor that it came over. It is read later, and by then the
// number may be another connection's. So each connection notes whom it has heard (`from`, as the transport
// numbers peers: no two connections have one). What somebody else said came over an earlier connection, and
// is not held against a member. Against a stranger it counts only until that one is heard, which comes at
// once, with its join.
//
// Thread: one; the descriptors are another thread's, which may close them at any time (socket_id.h).
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "common/wire/socket_id.h"

namespace paceline::wire {

// What is held against a connection, and how much of it:
//   kMalformed   what is no message: a program of ours never says that
//   kJoin        a join that is refused, or that is given twice where once is enough: it takes long to judge
//   kRejected      any other message of somebody who is not in the run: of a node that was lost many may be on
//                their way
enum class Wrong { kRejected = 1, kJoin = 16, kMalformed = 16 };

class Connections {
 public:
  // How much may be held against a connection before it is broken.
  static constexpr int kWrongMax = 256;
  static constexpr int kRejectedMax = kWrongMax / static_cast<int>(Wrong::kRejected);
  static constexpr int kMalformedMax = kWrongMax / static_cast<int>(Wrong::kMalformed);

  // `max`: at most so many at a time; 0: any number, of which only those that said something wrong are kept.
  explicit Connections(int max) : max_(max) {}

  void accepted(int descriptor);
  // It belongs to the run, and is not broken for others.
  void admit(int descriptor, const std::string& from);
  // It has said something wrong. Whether it was broken for that, now.
  bool count(Wrong what, int descriptor, const std::string& from);
  // Breaks those that are too many; returns how many.
  int break_surplus();

 private:
  struct Connection {
    SocketId socket;
    std::uint64_t number;  // in the order in which they came
    bool member = false;
    std::string from = {};  // who was heard over it; empty: nobody yet
    int wrong = 0;          // said by them

    void note_sender(const std::string& by) {
      if (from != by) wrong = 0;
      from = by;
    }
  };
  Connection* find(int descriptor);
  void forget_ended();

  const int max_;
  const SpareDescriptor spare_;
  std::uint64_t next_ = 0;
  std::unordered_map<int, Connection> connections_;  // by descriptor
};

}  // namespace paceline::wire
