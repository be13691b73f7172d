// Peers that could not be sent to, from the first refusal of a socket until they are lost. A message to them
// is missing, so they cannot go on with this run.
//
// A connection that broke (kUnavailable): what the peer said before may still be queued here, its last report
// say, so it is lost only when nothing more has come from it for kQuietTicks. Any other refusal, a full queue
// (kResourceExhausted) say, dropped a message that is never sent again, however much the peer still says: it
// is lost at the next tick.
//
// Pure. Thread: one at a time (the server's loop).
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/instant.h"
#include "common/status.h"
#include "server/peer.h"

namespace paceline::server {

class Unreachable {
 public:
  // Between two ticks every socket that has something is read at least once.
  static constexpr int kQuietTicks = 2;

  struct Entry {
    Peer peer;
    std::string why;
    bool dropped = false;  // a message, by a connection that still stands
    Ticks since;
    int ticks = 0;
  };

  // A message to `peer` was refused with `why`.
  void add(Peer peer, const Status& why, Ticks now) {
    const bool dropped = why.code() != StatusCode::kUnavailable;
    const Entry entry{peer, dropped ? why.message() : "its connection broke", dropped, now};
    const auto known =
        std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.peer == peer; });
    if (known == entries_.end()) {
      entries_.push_back(entry);
    } else if (dropped && !known->dropped) {
      *known = entry;
    }
  }

  // Another process has come in its place.
  void forget(Peer peer) {
    std::erase_if(entries_, [peer](const Entry& entry) { return entry.peer == peer; });
  }

  // One tick has passed. Those that are lost now, in the order in which they were found; they are forgotten
  // here. heard_since(peer, when): whether anything has come from it after `when`.
  template <typename HeardSince>
  std::vector<Entry> take_lost(Ticks now, HeardSince&& heard_since) {
    std::vector<Entry> lost;
    std::vector<Entry> still;
    for (Entry& entry : std::exchange(entries_, {})) {
      if (!entry.dropped && heard_since(entry.peer, entry.since)) {
        entry.since = now;
        entry.ticks = 0;
      }
      const bool waits = !entry.dropped && ++entry.ticks <= kQuietTicks;
      (waits ? still : lost).push_back(std::move(entry));
    }
    entries_ = std::move(still);
    return lost;
  }

 private:
  std::vector<Entry> entries_;
};

}  // namespace paceline::server
