// Peers that could not be sent to, from the first refusal of a socket until they are lost, or are back.
//
// Where the connection broke (kUnavailable) the peer may be alive. What it said before, its last report say,
// may still be queued here, and it may come back over another connection, over which it is told again what it
// missed. So it is lost only when nothing more has come from it for kQuietTicks and for as long as it is
// given to come back; or, where another peer has seen its own connection to it end about then, for kQuietTicks
// alone: then it is no connection that broke, but a process that ended. Any other refusal, a full queue
// (kResourceExhausted) say, dropped a message that is never sent again. Then the peer is lost at the next tick,
// however much it still says.
//
// Pure. Thread: one at a time (the server's loop).
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "common/instant.h"
#include "common/pause.h"
#include "common/status.h"
#include "server/peers/peer.h"

namespace paceline::server {

class Unreachable {
 public:
  // Between two ticks every socket that has something is read at least once.
  static constexpr int kQuietTicks = 2;
  // What another peer saw so long before counts no more: the two may have met again since, in another formation. It
  // need not be longer, since a peer of which that is said is sent something at once (MeshFormations::end()).
  static constexpr std::chrono::milliseconds kSeenAtMostBefore{1500};

  struct Entry {
    Peer peer;
    std::string why;
    bool dropped = false;  // a message, by a connection that still stands
    Ticks broke;           // when that was found
    Ticks since;           // nothing has come from it
    std::chrono::nanoseconds given{0};
    int ticks = 0;
  };

  // A message to `peer` was refused with `why`. `given`: how long it may take to come back.
  void add(Peer peer, const Status& why, Ticks now,
           std::chrono::nanoseconds given = std::chrono::nanoseconds(0)) {
    const bool dropped = why.code() != StatusCode::kUnavailable;
    const Entry entry{peer, dropped ? why.message() : "its connection broke", dropped, now, now, given};
    const auto known =
        std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.peer == peer; });
    if (known == entries_.end()) {
      entries_.push_back(entry);
    } else if (dropped && !known->dropped) {
      *known = entry;
    }
  }

  // Another peer's connection to it has ended, by itself, at `now`. Counts where ours has
  // broken by then, or breaks within kSeenAtMostBefore; both within as long as it is given.
  void ended_elsewhere(Peer peer, Ticks now) {
    std::erase_if(elsewhere_, [peer](const auto& of) { return of.first == peer; });
    elsewhere_.emplace_back(peer, now);
  }

  // Of whom that was said not long ago, while ours is not known to have broken: that shows only where something is
  // sent.
  std::vector<Peer> in_doubt(Ticks now) const {
    std::vector<Peer> peers;
    for (const auto& [peer, at] : elsewhere_) {
      if (now - at <= kSeenAtMostBefore && !is_missing(peer)) peers.push_back(peer);
    }
    return peers;
  }

  // Whether its connection broke, and it is not back.
  bool is_missing(Peer peer) const {
    return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.peer == peer; });
  }

  // A message to it was dropped by a connection that stood: it cannot go on, whatever connection it comes
  // over.
  Status dropped(Peer peer) const {
    for (const Entry& entry : entries_) {
      if (entry.peer == peer && entry.dropped) return resource_exhausted(to_string(peer) + ": " + entry.why);
    }
    return Status::ok();
  }

  // It is back, or another process has come in its place.
  void forget(Peer peer) {
    std::erase_if(entries_, [peer](const Entry& entry) { return entry.peer == peer; });
    std::erase_if(elsewhere_, [peer](const auto& of) { return of.first == peer; });
  }

  // This process itself did not run for that long, and whoever came back meanwhile is yet to be heard.
  void discount_pause(const Pause& pause) {
    for (Entry& entry : entries_) {
      entry.broke = pause.discounted(entry.broke);
      entry.since = pause.discounted(entry.since);
      entry.ticks = 0;
    }
    for (auto& [peer, at] : elsewhere_) at = pause.discounted(at);
  }

  // One tick has passed. Those that are lost now, in the order in which they were found; they are forgotten
  // here. seen_since(peer, when): whether anything has come from it after `when`.
  template <typename SeenSince>
  std::vector<Entry> take_lost(Ticks now, SeenSince&& seen_since) {
    std::vector<Entry> lost;
    std::vector<Entry> still;
    for (Entry& entry : std::exchange(entries_, {})) {
      if (!entry.dropped && seen_since(entry.peer, entry.since)) {
        entry.since = now;
        entry.ticks = 0;
      }
      const bool quiet =
          ++entry.ticks > kQuietTicks && (now - entry.since >= entry.given || has_ended_elsewhere(entry));
      const bool waits = !entry.dropped && !quiet;
      (waits ? still : lost).push_back(std::move(entry));
    }
    entries_ = std::move(still);
    return lost;
  }

 private:
  bool has_ended_elsewhere(const Entry& entry) const {
    return std::any_of(elsewhere_.begin(), elsewhere_.end(), [&](const auto& of) {
      const std::chrono::nanoseconds before = entry.broke - of.second;
      return of.first == entry.peer && -before <= entry.given &&
             before <= std::min<std::chrono::nanoseconds>(entry.given, kSeenAtMostBefore);
    });
  }

  std::vector<Entry> entries_;
  std::vector<std::pair<Peer, Ticks>> elsewhere_;  // one for each peer at most
};

}  // namespace paceline::server
