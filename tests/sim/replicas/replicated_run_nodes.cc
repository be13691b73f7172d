// The nodes of a simulated run with replicas, and their way to who serves.
#include <algorithm>

#include "tests/sim/replicas/carried.h"
#include "tests/sim/replicas/replicated_run.h"

namespace paceline::test {

namespace {

constexpr std::int64_t kAsksAgain = 1'000'000;

}  // namespace

void ReplicatedRun::start(NodeId node) {
  std::vector<std::unique_ptr<NodeModel>>& all = incarnations_[node.value];
  all.push_back(std::make_unique<NodeModel>(node, static_cast<std::uint32_t>(all.size()), surroundings_));
  nodes_[all.back()->party()] = all.back().get();
}

// The first connection is like each further one: nothing is said before the welcome.
void ReplicatedRun::come(NodeId node) {
  joined_.insert(node);
  NodeModel& joiner = node_at(node);
  for (std::uint32_t s = 0; s < shards_.size(); ++s) {
    joiner.broke(ShardId(s));
    find_server(joiner, ShardId(s));
  }
}

void ReplicatedRun::find_server(NodeModel& node, ShardId server) {
  if (node.is_dead() || !node.broken_since(server)) return;
  const std::int64_t cut = cut_until_[{node.party(), server}] - network_.now_ns();
  const ServerModel* const at = serving(server);
  if (cut > 0 || at == nullptr || !at->lets_in() || at->has_another_process_of(node.id(), node.party())) {
    network_.after(std::max(cut, kAsksAgain), [this, &node, server] { find_server(node, server); });
    return;
  }
  network_.connect_again(node.party(), shard_party(server.value),
                         [this, &node, server] { join(node, server); });
}

void ReplicatedRun::join(NodeModel& node, ShardId server) {
  ServerModel* const at = serving(server);
  if (at == nullptr || !at->lets_in() || at->has_another_process_of(node.id(), node.party())) {
    network_.after(kAsksAgain, [this, &node, server] { find_server(node, server); });
    return;
  }
  at->node_joins(node.id(), node.party());
  if (network_.is_broken(shard_party(server.value), node.party()))
    watch(*at, node.id(), node.party(), plan_.run.lease_ns);  // this one, too, by now
}

void ReplicatedRun::cut_off(NodeModel& node, ShardId server, std::int64_t for_ns) {
  if (!joined_.contains(node.id())) return;
  std::int64_t& until = cut_until_[{node.party(), server}];
  until = std::max(until, network_.now_ns() + for_ns);
  breaks(node, server);
  if (ServerModel* const at = serving(server)) watch(*at, node.id(), node.party(), plan_.run.lease_ns);
}

void ReplicatedRun::breaks(NodeModel& node, ShardId server) {
  if (!joined_.contains(node.id())) return;
  network_.break_connection(node.party(), shard_party(server.value));
  node.broke(server);
  find_server(node, server);
}

void ReplicatedRun::watch(ServerModel& server, NodeId node, Party who, std::int64_t for_ns) {
  const std::int64_t now = network_.now_ns();
  server.is_absent(who, now);
  network_.after(for_ns, [this, &server, node, who, for_ns, now] {
    if (server.is_dead() || !server.is_absent_since(who, now) || !server.state().is_here(node, who)) return;
    server.acts() && under_way_ ? server.misses(node) : watch(server, node, who, for_ns);
  });
}

void ReplicatedRun::node_receives(Party who, ShardId from, const wire::Message& message) {
  NodeModel& node = *nodes_.at(who);
  const Party there = shard_party(from.value);
  if (std::holds_alternative<wire::Grant>(message.body)) under_way_ = true;
  if (const auto* parameters = std::get_if<wire::Parameters>(&message.body)) {
    // In any order: answers to different pulls may overtake each other, as they do between a node's
    // connections.
    network_.send_in_any_order(there, who, [&node, from, message, request = parameters->request] {
      node.on_answer(request, from, carried<SliceAnswer>(message));
    });
    return;
  }
  network_.send(there, who, [this, &node, from, message] {
    if (std::holds_alternative<wire::Welcome>(message.body)) {
      if (from == kAuthority) in_the_run_.insert(node.party());
      node.is_dead() ? has_ended(node) : node.is_welcomed(from);
    } else if (std::holds_alternative<wire::Error>(message.body)) {
      if (!node.is_dead()) end(node);
    } else if (const auto* finish = std::get_if<wire::FinishWorker>(&message.body)) {
      node.on_finish(finish->worker);
    } else if (std::holds_alternative<wire::Grant>(message.body)) {
      node.on_grant(carried<sync::Grant>(message));
    }
  });
}

// Of one that dies before it is in the run nobody knows.
void ReplicatedRun::kill(NodeId node) {
  if (under_way_ && in_the_run_.contains(node_at(node).party())) return end(node_at(node));
  if (joined_.contains(node) && !node_at(node).is_dead())
    network_.after(kAsksAgain, [this, node] { kill(node); });
}

void ReplicatedRun::end(NodeModel& node) {
  node.die();
  has_ended(node);
}

void ReplicatedRun::has_ended(const NodeModel& node) {
  const std::int64_t lease = network_.random_between(1'000'000, 41'000'000);
  network_.after(lease, [this, &node] {
    ServerModel* const at = serving(kAuthority);
    if (at == nullptr) return;  // who serves next waits for it
    if (!at->acts() || !under_way_) return has_ended(node);
    if (at->state().is_here(node.id(), node.party())) at->misses(node.id());
    const auto returns = plan_.run.returns_after_ns.find(node.id());
    if (returns == plan_.run.returns_after_ns.end() || !returned_.insert(node.id()).second) return;
    network_.after(returns->second, [this, id = node.id()] { come_back(id); });
  });
}

void ReplicatedRun::come_back(NodeId node) {
  start(node);
  come(node);
}

}  // namespace paceline::test
