// What a connection's handshake failed of, in words for the person who runs the daemon that wanted to
// connect. Over TCP a connection that is refused looks like one that the network broke; ZeroMQ's events tell
// more, and here that becomes a Status that says what to do.
//
// Pure. Thread: any.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "common/instant.h"
#include "common/status.h"

namespace paceline::wire {

enum class HandshakeFault {
  kNotOnTheList,  // the server knows the key, or rather does not
  kOtherKind,     // one of the two has keys and the other has none
  kWrongWords,    // anything else in it that ZeroMQ's protocol does not allow
  kBrokenOff,     // the other side ended one after another, in order
};

// Tells when it is no accident that the other side ends our handshakes. A server that cannot read ours, since
// its key is not the one that we know, ends each in order. One that did nothing else for kFor is most likely
// not our server. A reset is different: a network that breaks causes one, a server that ends, and a server
// that has no room for the moment since strangers take all of it (socket_id.h). That passes, so a reset
// begins the count anew. Only who has keys concludes anything from this: who has none is told what is wrong
// in other ways, and may stand before a tunnel whose other end is not there yet.
class BrokenHandshakes {
 public:
  static constexpr std::chrono::seconds kFor{3};

  // One was ended in order. Whether that is to be told, now.
  bool ended_in_order(Ticks now) {
    if (!since_) since_ = now;
    if (now - *since_ < kFor) return false;
    since_.reset();
    return true;
  }
  // One came to another end, whatever that was.
  void ended_otherwise() { since_.reset(); }

 private:
  std::optional<Ticks> since_;  // one after another
};

// `own_name`: of this side's key (keys.h), empty: it has none.
inline Status handshake_failed(HandshakeFault fault, const std::string& own_name) {
  const bool has_keys = !own_name.empty();
  switch (fault) {
    case HandshakeFault::kNotOnTheList:
      return failed_precondition("does not know our key: its security.keys folder lacks the " + own_name +
                                 ".pub that belongs to our " + own_name + ".key");
    case HandshakeFault::kOtherKind:
      return failed_precondition(has_keys
                                     ? "has no keys, and we have: give it security.keys, or take ours away"
                                     : "demands keys, and we have none: give us security.keys");
    case HandshakeFault::kWrongWords:
      return failed_precondition("answers what no server of ours would: is another program listening there?");
    case HandshakeFault::kBrokenOff:
      return failed_precondition(
          "breaks the handshake off: its key is not that of our server.pub, another program is listening "
          "there, or it has no room for more connections (which its log says)");
  }
  return internal_error("an unknown fault of a handshake");
}

}  // namespace paceline::wire
