// Connections: the bound on how many connections a server's socket keeps, and what becomes of one that breaks
// the protocol. Members are those that were admitted to the run; of the others, strangers until they have
// said a join that fits, the one that came first is broken when there are too many: a node that has just come
// needs a moment, and who keeps a place without joining has had it.
//
//   at most 3   member 1   stranger 2   stranger 3   stranger 4 comes: 2 is broken
//
// But before them those over tcp that have sent nothing, and then those that have sent no more than ZeroMQ's
// greeting: a node does so at once, and what floods a port often connects and does no more.
//
// Over tcp and ipc. What ends by itself is not told of: it is looked for when the bound is reached.
//
// A message tells its connection by the descriptor that it came over, and is read later: by then the number
// may be another connection's. So it is noted who was heard over a connection (`from`, as the transport
// numbers peers: no two connections have one). What somebody else said came over an earlier one, and is not
// held against a member. Of two strangers, the earlier one's word counts against the later one only until
// that is heard, which with the join comes at once.
//
// Thread: one; the descriptors are another thread's, which may close them at any time (socket_id.h).
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "common/wire/socket_id.h"

namespace paceline::wire {

class Connections {
 public:
  // How often a connection may say what is no message before it is broken. A program of ours never does.
  static constexpr int kMalformedMax = 16;

  // `max`: at most so many at a time; 0: any number, of which only those that said malformed things are kept.
  explicit Connections(int max) : max_(max) {}

  void accepted(int descriptor);
  // It belongs to the run, and is not broken for others.
  void admit(int descriptor, const std::string& from);
  // It has said what is no message. Whether it was broken for that, now.
  bool said_malformed(int descriptor, const std::string& from);
  // Breaks those that are too many; returns how many.
  int break_surplus();

 private:
  struct Connection {
    SocketId socket;
    std::uint64_t number;  // in the order in which they came
    bool member = false;
    std::string from = {};  // who was heard over it; empty: nobody yet
    int malformed = 0;      // said by them

    void heard(const std::string& by) {
      if (from != by) malformed = 0;
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
