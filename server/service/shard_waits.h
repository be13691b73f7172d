// Why a shard does not answer, as it sees it: one line for each cause.
//
//   pulls of nodes 1 and 2 wait for version 118: shard 2 is at version 117, and decision 118 has not come
//     from the authority (last seen 0.2 s ago)
//   the pull of node 1 waits for revision 702 (version 117) to leave: node 4 (last seen 0.1 s ago) has 12
//     pieces to read and has taken none for 3.1 s
//   decision 119 and 3 messages after it wait for a released version to leave: node 4 …
//
// Nothing here decides or remembers anything (common/log/stall_log.h knows what has become long). At the
// authority a decision is applied as it is made, so what has not been reached is the engine's to explain
// (authority/run_waits.h).
//
// Pure. Thread: one at a time (the server's loop).
#pragma once

#include <cstddef>
#include <vector>

#include "common/log/stall_log.h"
#include "server/peers/last_seen.h"
#include "server/service/state_durations.h"
#include "server/store/pending_pulls.h"

namespace paceline::server {

// What a shard has that waits.
struct ShardWaiting {
  ShardId id;
  const Shard* shard;  // null: no node has joined
  const PendingPulls& pulls;
  const ReplyWindow& replies;
  std::size_t postponed;  // decisions and what is after them
  const std::vector<wire::GradientArrived>& withheld;
  const StateDurations& durations;
};

std::vector<Wait> waits_of(const ShardWaiting& shard, const LastSeen& last_seen, Ticks now);

}  // namespace paceline::server
