// Gathered: what is said to the peers of one socket within a moment, so that it leaves in as few messages as
// its payloads allow. A message on the wire has at most one payload; those without one that were said just
// before and after it lie in its header (codec.h, Others), in order.
//
//   said to a peer     Pull   Push{…}+payload   Push{last}+payload   StepReport   Heartbeat
//   messages          └──────── 1 ──────────┘  └───────────── 2 ─────────────┘   └── 3 ──┘
//
// So only what may still be joined by something waits: the first message here leaves when the second begins.
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
  std::int64_t TrafficCounters::* counted;  // as what its bytes are
  bool travels_with_others;
};

// As what the bytes of a message are counted.
std::int64_t TrafficCounters::* counter_of(const Body& body);

// Whether a message can be one with those that were said just before it, none or more that are one already.
bool joins(std::span<const Outgoing> together, const Outgoing& message);
// The one in whose header the others lie: that with the payload.
std::size_t carrier(std::span<const Outgoing> together);

class Gathered {
 public:
  using ByPeer = std::vector<std::pair<PeerId, std::vector<Outgoing>>>;

  // What has gathered for the peer, as one message; at most kTogetherMax, none that does not join the others.
  std::span<const Outgoing> of(const PeerId& to) const;
  void add(const PeerId& to, Outgoing message);
  std::vector<Outgoing> take(const PeerId& to);
  // By peer, in the order in which each was first spoken to.
  ByPeer take_all();
  // How many wait for the peer that are small, as Unread counts them.
  std::int64_t waiting(const PeerId& to) const;

 private:
  std::vector<PeerId> peers_;  // those in messages_
  std::unordered_map<PeerId, std::vector<Outgoing>> messages_;
};

}  // namespace paceline::wire
