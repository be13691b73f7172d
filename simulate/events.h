// What can happen in a simulated run, as small values for the queue: a kind and whom it is about. What goes
// with it lies with its party (a worker's grant, a pull's answers), since there is never more than one.
#pragma once

#include <cstdint>

#include "simulate/event_queue.h"

namespace paceline::simulate {

enum class EventKind : std::uint32_t {
  kGrantArrives,     // a: rank                  at its node
  kFinishArrives,    // a: rank
  kComputeBegins,    // a: rank                  parameters and mini-batch are there
  kComputeEnds,      // a: rank
  kPushLeaves,       // a: rank                  its local apply is done
  kPushArrives,      // a: shard, b: rank        whole; at shard 0 the report behind it
  kPushTaken,        // a: shard, b: rank        by the server's loop
  kReportArrives,    // a: rank                  alone: its gradient is not finite
  kReportTaken,      // a: rank
  kArrivalSaid,      // a: shard, b: rank        to the authority
  kArrivalTaken,     // a: shard, b: rank
  kDecisionArrives,  // a: shard, b: decision
  kDecisionApplied,  // a: shard, b: decision
  kPullArrives,      // a: shard, b: pull
  kPullTaken,        // a: shard, b: pull
  kReplyLeaves,      // a: shard, b: pull
  kAnswerArrives,    // a: shard, b: pull        parameters
  kUnchanged,        // a: shard, b: pull        the news that there is nothing newer
  kFlowEnters,       // a: flow                  a transfer reaches its server's link
  kLinkIsThrough,    // a: link                  with one of its transfers, if nothing came in between
  kCrash,            // a: node
  kLost,             // a: node                  its lease is over
  kStop,             // max_seconds
};

struct Event {
  EventKind kind = EventKind::kStop;
  std::uint32_t a = 0;
  std::uint32_t b = 0;
};

using Events = EventQueue<Event>;

}  // namespace paceline::simulate
