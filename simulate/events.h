// What can happen in a simulated run, as small values for the queue: a kind and whom it is about. What goes
// with it lies with its party (a worker's grant, a pull's answers), since there is seldom more than one: of what a
// worker has pushed `c` says which.
//
// A node that comes back is another party, so that nothing which is under way of the crashed one is mistaken
// for its own: the incarnations are numbered, the nodes themselves first (node 1 of 4 is 1, and when it comes
// back 4 or more). A worker is meant by its incarnation: incarnation x threads_per_node + thread, which is
// its rank as long as nobody has come back.
#pragma once

#include <cstdint>

#include "simulate/event_queue.h"

namespace paceline::simulate {

enum class EventKind : std::uint32_t {
  kGrantArrives,     // a: worker                at its node
  kFinishArrives,    // a: worker
  kComputeBegins,    // a: worker                parameters and mini-batch are there
  kComputeEnds,      // a: worker
  kPushSent,         // a: worker                its local apply is done
  kPushArrives,      // a: shard, b: worker      whole; at shard 0 the report after it
  kPartArrives,      // a: shard, b: worker      of a push: nothing follows before the rest is there
  kPushTaken,        // a: shard, b: worker      by the server's loop
  kReportArrives,    // a: worker                alone: its gradient is not finite
  kReportTaken,      // a: worker
  kArrivalReported,  // a: shard, b: worker      to the authority
  kArrivalTaken,     // a: shard, b: worker
  kDecisionArrives,  // a: shard, b: decision
  kDecisionApplied,  // a: shard, b: decision
  kPullArrives,      // a: shard, b: pull
  kPullTaken,        // a: shard, b: pull
  kReplySent,        // a: shard, b: pull
  kAnswerArrives,    // a: shard, b: pull        parameters
  kUnchanged,        // a: shard, b: pull        the news that there is nothing newer
  kReduced,          // a: worker                the next version is there, at its node
  kParametersHere,   // a: pull                  its node has them itself
  kFlowEnters,       // a: flow                  a transfer reaches its server's link
  kLinkIsThrough,    // a: link                  with one of its transfers, if nothing came in between
  kCrash,            // a: node
  kLost,             // a: incarnation           its lease is over
  kJoin,             // a: incarnation
  kStop,             // max_seconds
};

struct Event {
  EventKind kind = EventKind::kStop;
  std::uint32_t a = 0;
  std::uint32_t b = 0;
  std::uint32_t c = 0;  // kPush..., kReport..., kArrival...: the stamp, its lower bits
};

using Events = EventQueue<Event>;

}  // namespace paceline::simulate
