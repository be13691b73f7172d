// What a simulated run with replicas has met; and which rule of theirs it breaks on purpose.
#pragma once

#include <cstdint>

namespace paceline::test {

// One rule each, broken by whoever drives the replicas here (server_model.h). The comment is what the broken one does
// instead.
enum class Breach {
  kNone,
  kSentTooSoon,          // it says things before the follower has what they follow from
  kUnsentForgotten,      // who takes over does not say what the one before had not said
  kHalfTurnApplied,      // ... and has applied a turn of which it has not the end
  kIncompleteTakesOver,  // ... though it lacks something
  kHeldIsKept,           // what waits for a connection that broke is said over the next one, too
  kSentIsNotCounted,     // a follower does not note what its shard's server has said to the authority
  kCount,
};

struct ReplicaFaults {
  std::int64_t deaths = 0;  // of one that served
  // Of them, in the middle of a turn, of telling the follower about it, or of what it said.
  std::int64_t in_turns = 0, in_telling = 0, in_release = 0;
  std::int64_t deposed = 0;  // it lived, and another one took its place
  std::int64_t taken_over = 0, authorities_taken_over = 0;
  std::int64_t half_turns = 0;      // that a follower had when it took over
  std::int64_t uncommitted = 0;     // messages that it then said
  std::int64_t never_released = 0;  // that the one before held, and nobody has heard
  std::int64_t links_cut = 0, followers_died = 0;
  std::int64_t gone_on_alone = 0;   // whose follower was left out
  std::int64_t followed_again = 0;  // the first follower was lost before it had everything
  std::int64_t history = 0;         // events that one was told as it came
  std::int64_t both_lost = 0;       // servers of a shard: the run is over
  // Over other connections, and what was said again there.
  std::int64_t nodes_gone_on = 0, shards_gone_on = 0;
  std::int64_t retransmitted_by_nodes = 0, retransmitted_to_nodes = 0, retransmitted_by_servers = 0;
  std::int64_t files_compared = 0, followers_compared = 0;  // the latter at the end

  bool operator==(const ReplicaFaults&) const = default;
};

}  // namespace paceline::test
