// The network: how long a transfer takes that shares its links with others.
//
// Every process has one link, with a bandwidth of its own in each direction. A transfer between a node and a
// server needs both links, and has arrived, `latency` later, when both are through with it:
//   a node's link     one transfer after another: the threads of a node hand theirs to one I/O thread. Each
//                     node's may be of another bandwidth
//   a server's link   all at once, each with an equal share of what it has (processor sharing): ZeroMQ and
//                     TCP serve the nodes in turn, a frame each
// A link without a limit is through at once. So K transfers of b bytes through one server's link take
// K b / bandwidth in all, whatever the order.
//
//   server 100 B/s   a of 100 bytes enters at 0 s, b of 100 bytes at 0.5 s: from then on both have 50 B/s
//                    a is through at 1.5 s; b, alone again, at 2 s
//
// Equal shares are kept with one number: v, the bytes that each transfer present has been served since the
// start. One of b bytes that enters at v is through at v + b, and v grows by bandwidth / (number present).
// (Generalised processor sharing, Parekh and Gallager, 1993.) O(log n) for each transfer.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <vector>

#include "common/config/run_config.h"
#include "common/ids.h"
#include "simulate/events.h"

namespace paceline::simulate {

class Network {
 public:
  Network(const SimulatedNetwork& settings, std::uint32_t nodes, std::uint32_t servers, Events& events);

  // `bytes` from one to the other, from now on; `arrived` happens at the other end. Returns when the last
  // byte has left a node's own link, or would enter it from the server's.
  Ticks to_server(NodeId from, ShardId to, std::int64_t bytes, Event arrived, Ticks now);
  Ticks to_node(ShardId from, NodeId to, std::int64_t bytes, Event arrived, Ticks now);
  // A message of a few bytes.
  void message(Event arrived, Ticks now) { events_.at(now + latency_, arrived); }
  std::chrono::nanoseconds latency() const { return latency_; }

  // The two events that are the network's own.
  void flow_enters(std::uint32_t flow, Ticks now);
  void link_is_through(std::uint32_t link, Ticks now);

 private:
  struct Flow {
    std::uint32_t link = 0;
    double bytes = 0.0;
    Ticks node_through;  // when the node's link is
    Event arrived;
  };
  // One direction of a server's link.
  struct SharedLink {
    struct Present {
      double through_at;  // v
      std::uint64_t order;
      std::uint32_t flow;
      bool operator>(const Present& o) const {
        return through_at != o.through_at ? through_at > o.through_at : order > o.order;
      }
    };
    double served = 0.0;  // v
    Ticks last;
    std::optional<Ticks> next_at;  // the event under way
    std::priority_queue<Present, std::vector<Present>, std::greater<>> present;
  };

  // `node_free`: when the node's link, in this direction, is through with what was handed to it before.
  Ticks transfer(NodeId node, Ticks& node_free, std::uint32_t link, std::int64_t bytes, Event arrived,
                 Ticks now);
  void serve(SharedLink& link, Ticks now);
  void schedule_next(std::uint32_t link, Ticks now);
  std::uint32_t new_flow(Flow flow);

  const std::chrono::nanoseconds latency_;
  const std::vector<std::optional<double>> node_ns_per_byte_;
  const std::optional<double> server_ns_per_byte_;
  Events& events_;
  std::vector<Ticks> node_up_free_;
  std::vector<Ticks> node_down_free_;
  std::vector<SharedLink> links_;  // of server k: 2k down (to it), 2k + 1 up (from it)
  std::vector<Flow> flows_;
  std::vector<std::uint32_t> free_flows_;
  std::uint64_t order_ = 0;
};

}  // namespace paceline::simulate
