// What a connection's handshake failed of, in words for the person who runs the daemon that wanted to
// connect. Over TCP a connection that is refused looks like one that the network broke; ZeroMQ's events tell
// more, and here that becomes a Status that says what to do.
//
// Pure. Thread: any.
#pragma once

#include <chrono>
#include <string>

#include "common/status.h"

namespace paceline::wire {

enum class HandshakeFault {
  kNotOnTheList,  // the server knows the key, or rather does not
  kOtherKind,     // one of the two has keys and the other has none
  kWrongWords,    // anything else in it that ZeroMQ's protocol does not allow
  kBrokenOff,     // the other side ended the connection meanwhile
};

// A server that did nothing else for so long does not do so by accident. Only who has keys concludes that: it
// has the wrong one of the server, most likely. Who has none is told what else is wrong in other ways, and
// may stand before a tunnel whose other end is not there yet.
inline constexpr std::chrono::seconds kBrokenOffFor{3};

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
          "breaks the handshake off: its key is not that of our server.pub, or another "
          "program is listening there");
  }
  return internal_error("an unknown fault of a handshake");
}

}  // namespace paceline::wire
