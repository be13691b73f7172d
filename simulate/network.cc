#include "simulate/network.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "common/assert.h"
#include "simulate/virtual_time.h"

namespace paceline::simulate {
namespace {

std::optional<double> ns_per_byte(const std::optional<std::int64_t>& bandwidth) {
  if (!bandwidth) return std::nullopt;
  return 1e9 / static_cast<double>(*bandwidth);
}

// Of each node, where one value serves all, too.
std::vector<std::optional<double>> ns_per_byte(const std::vector<std::optional<std::int64_t>>& bandwidths,
                                               std::uint32_t nodes) {
  PACELINE_ASSERT(bandwidths.size() == 1 || bandwidths.size() == nodes,
                  std::to_string(bandwidths.size()) + " bandwidths for " + std::to_string(nodes) + " nodes");
  std::vector<std::optional<double>> of_nodes;
  for (std::uint32_t n = 0; n < nodes; ++n) {
    of_nodes.push_back(ns_per_byte(bandwidths[bandwidths.size() == 1 ? 0 : n]));
  }
  return of_nodes;
}

std::chrono::nanoseconds whole_ns(double ns) { return length_of(std::ceil(ns)); }

}  // namespace

Network::Network(const SimulatedNetwork& settings, std::uint32_t nodes, std::uint32_t servers, Events& events)
    : latency_(settings.latency),
      node_ns_per_byte_(ns_per_byte(settings.bandwidth, nodes)),
      server_ns_per_byte_(ns_per_byte(settings.server_bandwidth)),
      events_(events),
      node_up_free_(nodes),
      node_down_free_(nodes),
      links_(std::size_t{2} * servers) {}

Ticks Network::to_server(NodeId from, ShardId to, std::int64_t bytes, Event arrived, Ticks now) {
  return transfer(from, node_up_free_[from.value], 2 * to.value, bytes, arrived, now);
}

Ticks Network::to_node(ShardId from, NodeId to, std::int64_t bytes, Event arrived, Ticks now) {
  return transfer(to, node_down_free_[to.value], 2 * from.value + 1, bytes, arrived, now);
}

Ticks Network::transfer(NodeId node, Ticks& node_free, std::uint32_t link, std::int64_t bytes, Event arrived,
                        Ticks now) {
  Ticks begins = now;
  Ticks through = now;
  if (const std::optional<double>& ns_per_byte = node_ns_per_byte_[node.value]) {
    begins = std::max(now, node_free);
    through = node_free = after(begins, whole_ns(static_cast<double>(bytes) * *ns_per_byte));
  }
  if (!server_ns_per_byte_) {
    events_.at(through + latency_, arrived);
    return through;
  }
  const std::uint32_t flow = new_flow({link, static_cast<double>(bytes), through, arrived});
  begins > now ? events_.at(begins, {EventKind::kFlowEnters, flow, 0}) : flow_enters(flow, now);
  return through;
}

std::uint32_t Network::new_flow(Flow flow) {
  if (free_flows_.empty()) {
    free_flows_.push_back(static_cast<std::uint32_t>(flows_.size()));
    flows_.emplace_back();
  }
  const std::uint32_t place = free_flows_.back();
  free_flows_.pop_back();
  flows_[place] = flow;
  return place;
}

void Network::flow_enters(std::uint32_t flow, Ticks now) {
  const std::uint32_t place = flows_[flow].link;
  SharedLink& link = links_[place];
  serve(link, now);
  link.present.push({link.served + flows_[flow].bytes, order_++, flow});
  schedule_next(place, now);
}

// v up to now.
void Network::serve(SharedLink& link, Ticks now) {
  if (link.present.empty()) {
    link.served = 0.0;  // nobody counts from it: it stays small
  } else {
    const auto present = static_cast<double>(link.present.size());
    link.served += static_cast<double>((now - link.last).count()) / (*server_ns_per_byte_ * present);
  }
  link.last = now;
}

// The next one that will be through. More transfers make it later: then the event that is under way finds
// nobody through, and looks again. It is never too late.
void Network::schedule_next(std::uint32_t place, Ticks now) {
  SharedLink& link = links_[place];
  if (link.present.empty()) return;
  const auto present = static_cast<double>(link.present.size());
  const double bytes = std::max(link.present.top().through_at - link.served, 0.0);
  const Ticks through = after(now, whole_ns(bytes * *server_ns_per_byte_ * present));
  if (link.next_at && *link.next_at <= through) return;
  link.next_at = through;
  events_.at(through, {EventKind::kLinkIsThrough, place, 0});
}

void Network::link_is_through(std::uint32_t place, Ticks now) {
  SharedLink& link = links_[place];
  if (link.next_at != now) return;  // an earlier one took its place
  link.next_at.reset();
  serve(link, now);
  while (!link.present.empty()) {
    // Times are whole nanoseconds: what is due within one is due.
    const double ns = (link.present.top().through_at - link.served) * *server_ns_per_byte_ *
                      static_cast<double>(link.present.size());
    if (ns >= 1.0) break;
    const std::uint32_t flow = link.present.top().flow;
    link.present.pop();
    events_.at(std::max(now, flows_[flow].node_through) + latency_, flows_[flow].arrived);
    free_flows_.push_back(flow);
  }
  schedule_next(place, now);
}

}  // namespace paceline::simulate
