// Gathered: what is said to the peers of one socket within a moment, so that it leaves in as few messages as
// its payloads allow. A message on the wire has at most one payload; those without one that were said just
// before and behind it lie in its header (codec.h, Others), in order.
//
//   said to a peer     Pull   Push{…}+payload   Push{last}+payload   StepReport
//   messages          └──────── 1 ──────────┘  └───────────── 2 ─────────────┘
//
// Thread: one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/wire/messages.h"
#include "common/wire/transport.h"

namespace paceline::wire {

// A message that has been encoded: its own header, and what there is to say of it.
struct Outgoing {
  std::string header;
  Payload payload;
  const char* name;
  std::int64_t TrafficCounters::*counted;  // as what its bytes are
  bool travels_with_others;
};

// As what the bytes of a message are counted.
std::int64_t TrafficCounters::*counter_of(const Body& body);

// Of what is to be said to one peer: how many of the first make one message. At least one.
std::size_t together(std::span<const Outgoing> messages);
// And the one in whose header the others lie: that with the payload.
std::size_t carrier(std::span<const Outgoing> together);

class Gathered {
 public:
  using ByPeer = std::vector<std::pair<PeerId, std::vector<Outgoing>>>;

  bool empty() const { return by_peer_.empty(); }
  void add(const PeerId& to, Outgoing message);
  // How many wait for the peer that are small, as Unread counts them.
  std::int64_t waiting(const PeerId& to) const;
  void forget(const PeerId& to);
  // All that has gathered, by peer, in the order in which each was first spoken to.
  ByPeer take();

 private:
  ByPeer by_peer_;
  std::unordered_map<PeerId, std::size_t> at_;
};

}  // namespace paceline::wire
