// Pulls that wait: for a version which the shard has not reached, or for an older state to have left
// (store/reply_window.h). Bounded per asker: a node's threads share
// its transfers, so more at once than pulls_max() (server/peers/unread_messages_max.h) are refused.
//
// Thread: one at a time (the server's loop).
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "common/wire/messages.h"
#include "server/peers/peer.h"

namespace paceline::server {

struct PendingPull {
  Peer from;
  wire::Pull pull;
};

class PendingPulls {
 public:
  explicit PendingPulls(std::size_t per_peer_max) : per_peer_max_(per_peer_max) {}

  // Errors: kResourceExhausted when the peer has its share of held pulls already.
  [[nodiscard]] Status hold(PendingPull pull) {
    const auto theirs =
        std::count_if(held_.begin(), held_.end(), [&](const PendingPull& p) { return p.from == pull.from; });
    if (static_cast<std::size_t>(theirs) >= per_peer_max_) {
      return resource_exhausted("pull from " + to_string(pull.from) + ": " + std::to_string(theirs) +
                                " of its pulls are held already");
    }
    held_.push_back(std::move(pull));
    return Status::ok();
  }

  // Moves those for which ready(pull) holds to the end of `out`, in the order in which they came.
  template <typename Ready>
  void take_ready(Ready&& ready, std::vector<PendingPull>& out) {
    const auto waiting =
        std::stable_partition(held_.begin(), held_.end(), [&](const PendingPull& p) { return ready(p); });
    out.insert(out.end(), held_.begin(), waiting);
    held_.erase(held_.begin(), waiting);
  }

  void drop(Peer from) {
    std::erase_if(held_, [from](const PendingPull& p) { return p.from == from; });
  }

  std::size_t size() const { return held_.size(); }
  const std::vector<PendingPull>& held() const { return held_; }

 private:
  std::size_t per_peer_max_;
  std::vector<PendingPull> held_;
};

}  // namespace paceline::server
