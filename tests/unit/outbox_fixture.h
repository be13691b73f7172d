// An Outbox that remembers what was sent, in order.
#pragma once

#include <utility>
#include <vector>

#include "server/peers/peer.h"

namespace paceline::server {

class Sent final : public Outbox {
 public:
  struct Entry {
    Peer to;
    wire::Message message;
  };
  void send(Peer to, wire::Message message) override { entries.push_back({to, std::move(message)}); }
  void disconnect(NodeId node) override {
    std::erase_if(entries, [node](const Entry& entry) { return entry.to == Peer::of(node); });
  }

  // Those of one kind sent to `to`, in order.
  template <typename Body>
  std::vector<Body> of(Peer to) const {
    std::vector<Body> found;
    for (const Entry& entry : entries) {
      const Body* body = std::get_if<Body>(&entry.message.body);
      if (entry.to == to && body != nullptr) found.push_back(*body);
    }
    return found;
  }
  template <typename Body>
  std::vector<Body> to_authority() const {
    return of<Body>(Peer::of(kAuthority));
  }
  void clear() { entries.clear(); }

  std::vector<Entry> entries;
};

}  // namespace paceline::server
