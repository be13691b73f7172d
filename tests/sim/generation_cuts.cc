// Connections that break, what both ends do after it, and who is lost because it takes too long.
#include <algorithm>

#include "tests/sim/generation.h"

namespace paceline::test {

using namespace paceline::sync;

void Generation::begin(const LinkCut& cut) {
  if (!cut.node) return begin_between_servers(cut);
  for (std::uint32_t s = 0; s < shards_.size(); ++s) {
    if (!cut.server || *cut.server == ShardId(s)) cut_off(*cut.node, ShardId(s), cut.for_ns);
  }
}

void Generation::begin_between_servers(const LinkCut& cut) {
  ShardLine& line = *lines_[cut.server->value];
  if (line.is_broken()) return;
  ++faults_.shards_cut;
  line.breaks();
  network_.after(cut.for_ns, [&line] { line.goes_on(); });
}

void Generation::cut_off(NodeId id, ShardId server, std::int64_t for_ns) {
  NodeModel& node = node_at(id);
  if (joined_.count(id) == 0 || refused_.count(node.party()) > 0) return;
  const std::pair link{node.party(), server};
  const std::int64_t now = network_.now_ns();
  ++faults_.nodes_cut;
  network_.break_connection(node.party(), shard_party(server.value));
  node.broke(server);
  cut_until_[link] = std::max(cut_until_[link], now + for_ns);
  network_.after(for_ns, [this, &node, server, link] {
    const bool heals = network_.now_ns() >= cut_until_[link] && node.broken_since(server);
    if (heals && !node.is_dead()) join_again(node, server);
  });
  if (missed_since_.count(link) == 0) watch(node, server);
}

// Either end waits for the other so long, each by its own clock.
void Generation::watch(NodeModel& node, ShardId server) {
  const std::pair link{node.party(), server};
  const std::int64_t now = network_.now_ns();
  missed_since_[link] = now;
  network_.after(plan_.lease_ns, [this, &node, server, link, now] {
    const auto since = missed_since_.find(link);
    if (since != missed_since_.end() && since->second == now) miss(node, server);
  });
  network_.after(plan_.lease_ns + network_.random_between(0, 2'000'000), [this, &node, server, now] {
    if (!node.is_dead() && node.broken_since(server) == Ticks(now)) end(node);
  });
}

void Generation::miss(NodeModel& node, ShardId server) {
  if (refused_.count(node.party()) == 0 && !node.is_dead()) {
    ++faults_.lost_by_lease;
    lost_by_lease_.insert(node.party());
  }
  if (server == kAuthority) return lose(node.id(), node.party());
  const auto incarnation = static_cast<std::uint64_t>(node.party());
  to_authority(server, {wire::NodeLost{node.id(), "silent", incarnation, /*out_of_reach=*/true}, {}});
}

void Generation::join_again(NodeModel& node, ShardId server) {
  const Party there = shard_party(server.value);
  network_.connect_again(node.party(), there, [this, &node, server, there] {
    const std::set<Party>& gone = server == kAuthority ? refused_ : unknown_[server.value];
    if (gone.count(node.party()) > 0) {
      return network_.send(there, node.party(), [this, &node] { end(node); });
    }
    ++faults_.gone_on;
    missed_since_.erase({node.party(), server});
    if (network_.is_broken(there, node.party())) watch(node, server);  // this one, too, by now
    shards_[server.value]->reconnected(node.id());
    network_.send(there, node.party(),
                  [this, &node, server] { node.is_dead() ? has_ended(node) : node.is_welcomed(server); });
    if (server == kAuthority) authority_.node_reconnected(node.id());
  });
}

}  // namespace paceline::test
