// LastSeen: how long ago a peer was heard of, for whoever has to say why something does not come: a peer that
// is silent is another matter than one that talks and does not send it. The server's loop knows
// (server/peers/membership.h), the tests say what they like.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/instant.h"
#include "server/peers/peer.h"

namespace paceline::server {

// Nothing of a peer that is not there, or is this process itself.
using LastSeen = std::function<std::optional<std::chrono::nanoseconds>(Peer)>;

// "last seen 0.4 s ago"; empty where that is not known.
inline std::string last_seen_ago(Peer peer, const LastSeen& last_seen) {
  const auto silent = last_seen(peer);
  if (!silent) return "";
  char text[48];
  std::snprintf(text, sizeof text, "last seen %.1f s ago", to_seconds(*silent));
  return text;
}

// "node 3, last seen 0.4 s ago", "shard 0"
inline std::string with_last_seen(Peer peer, const LastSeen& last_seen) {
  const std::string ago = last_seen_ago(peer, last_seen);
  return to_string(peer) + (ago.empty() ? "" : ", " + ago);
}

// " (last seen 0.4 s ago)", ""
inline std::string bracketed_last_seen(Peer peer, const LastSeen& last_seen) {
  const std::string ago = last_seen_ago(peer, last_seen);
  return ago.empty() ? "" : " (" + ago + ")";
}

// "shard 2 (last seen 0.4 s ago)", "shard 0"
inline std::string with_last_seen_after(Peer peer, const LastSeen& last_seen) {
  return to_string(peer) + bracketed_last_seen(peer, last_seen);
}

// "a", "a and b", "a, b and c", "a, b, c and 5 more": so many of those that a line is about are named.
inline std::string enumerated(const std::vector<std::string>& names) {
  constexpr std::size_t kNamed = 3;
  std::string text;
  const std::size_t named = std::min(names.size(), kNamed);
  for (std::size_t i = 0; i < named; ++i) {
    const bool last = i + 1 == names.size();
    text += (i == 0 ? "" : last ? " and " : ", ") + names[i];
  }
  return text + (names.size() > named ? " and " + std::to_string(names.size() - named) + " more" : "");
}

}  // namespace paceline::server
