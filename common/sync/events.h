// Events: everything the synchronisation core can be told. The authority's loop makes them from messages and
// timers, the simulator and the tests by hand. They come from the world, so any of them may be wrong: the
// Engine answers a wrong one with a Reject action and changes nothing.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "common/clock.h"
#include "common/ids.h"
#include "common/metric.h"

namespace paceline::sync {

// A training thread is there and holds (or has sent) what it needs to begin.
struct Joined {
  WorkerId worker;
};

// `shard` holds the gradient of `worker` stamped `clock` whole.
struct GradientArrived {
  ShardId shard;
  WorkerId worker;
  Clock clock;
  std::int64_t weight = 0;  // samples it was computed over; > 0, the same from every shard
  std::string fault;        // the tensor that holds a NaN or infinity; empty: all finite
};

// `worker` says it completed the iteration stamped `clock`; its gradient is on the way to every shard.
struct StepReported {
  WorkerId worker;
  Clock clock;
  Metric metric;             // not read when empty
  Version computed_version;  // of the parameters it was computed with
  Revision computed_revision;
  bool empty = false;            // the iteration is skipped (NaN): weight 0, no gradient comes
  std::string fault;             // the loss or tensor that was not finite; empty: all finite
  std::int64_t own_updates = 0;  // own gradients that were in these parameters besides (read-my-writes)
};

// A node was silent past its lease, or left: all its workers are gone. What they had completed stays.
struct Lost {
  NodeId node;
};

// Nobody gets another grant: max_seconds, target accuracy, a signal. `reason` reaches every worker.
struct StopRequested {
  std::string reason;
};

// The run is to quiesce, for a while: nobody begins an iteration that some live worker has not come to
// yet (versioned), or any at all (eager), until QuiesceEnded. The Engine says Quiesced once all that was
// begun is applied: then nothing is under way, and state() is all there is.
struct QuiesceRequested {};
// Whoever was held for that is granted again.
struct QuiesceEnded {};

// Time passed. The only event for which nobody has to do anything; it lets held grants be announced.
struct Tick {};

using Event = std::variant<Joined, GradientArrived, StepReported, Lost, StopRequested, QuiesceRequested,
                           QuiesceEnded, Tick>;

}  // namespace paceline::sync
