// Where a peer that has joined a shard is before it has come to this replica of it: nothing can be sent there.
#pragma once

#include "common/wire/transport.h"
#include "server/peer.h"

namespace paceline::server {

inline wire::PeerId elsewhere(Peer peer) { return "elsewhere: " + to_string(peer); }
inline bool is_elsewhere(const wire::PeerId& connection) { return connection.starts_with("elsewhere: "); }

}  // namespace paceline::server
