// Who talks to a shard in tests.
#pragma once

#include "server/peers/peer.h"

namespace paceline::server {

inline const Peer kNode0 = Peer::of(NodeId(0));
inline const Peer kNode1 = Peer::of(NodeId(1));
inline const Peer kTheAuthority = Peer::of(kAuthority);
inline const WorkerId kWorker(0, 0);

}  // namespace paceline::server
