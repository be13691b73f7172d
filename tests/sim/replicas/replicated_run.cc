// How it begins and ends, and its servers.
#include "tests/sim/replicas/replicated_run.h"

#include <algorithm>
#include <string>

#include "tests/sim/end_checks.h"

namespace paceline::test {

ReplicatedRun::ReplicatedRun(const ReplicaPlan& plan, Breach breach, Violations& violations,
                             ReplicaFaults& faults)
    : plan_(plan),
      violations_(violations),
      faults_(faults),
      network_(plan.run.seed),
      surroundings_{plan.run, network_, violations, {}, plan.run.config.total_iterations + 2, {}},
      servers_{plan.run, network_, violations, faults, surroundings_.clocks, breach},
      incarnations_(plan.run.config.cluster.nodes) {
  // A stamp of which the gradient is lost is one more than there are iterations.
  const std::uint32_t workers = plan.run.config.cluster.workers();
  surroundings_.clocks += workers * static_cast<std::int64_t>(plan.run.returns_after_ns.size());
  surroundings_.receives = [this](NodeModel& node, ShardId server, const wire::Message& message) {
    if (ServerModel* at = serving(server)) at->node_sends(node.id(), node.party(), message);
  };
  for (std::uint32_t s = 0; s < plan.run.config.shards; ++s) {
    shards_.push_back(std::make_unique<ReplicatedShard>(ShardId(s), servers_, plan.shards[s], plan.lease_ns,
                                                        handlers_of(ShardId(s))));
  }
  for (std::uint32_t n = 0; n < plan.run.config.cluster.nodes; ++n) start(NodeId(n));
}

ReplicatedShard::Handlers ReplicatedRun::handlers_of(ShardId shard) {
  return {[this, shard](Party who, const wire::Message& message) { node_receives(who, shard, message); },
          [this](ShardId to, const wire::Message& message) {
            network_.send(kAuthorityParty, shard_party(to.value), [this, to, message] {
              if (ServerModel* at = serving(to)) at->authority_sends(message);
            });
          },
          [this, shard](const wire::Message& message) {
            network_.send(shard_party(shard.value), kAuthorityParty, [this, shard, message] {
              if (ServerModel* at = serving(kAuthority)) at->shard_sends(shard, message);
            });
          },
          [this](const wire::Message& message) {
            const auto& discard = std::get<wire::DiscardGradient>(message.body);
            surroundings_.fates[{discard.worker, discard.clock}] = Fate::kDiscarded;
          },
          [this, shard] { is_gone(shard); },
          [this, shard] { is_served_again(shard); },
          [this] { lost_ = true; }};
}

void ReplicatedRun::run() {
  for (const auto& shard : shards_) shard->begin();
  for (std::uint32_t s = 1; s < shards_.size(); ++s) find_authority(ShardId(s));
  for (std::uint32_t n = 0; n < plan_.run.config.cluster.nodes; ++n) {
    const auto late = plan_.run.comes_at_ns.find(NodeId(n));
    network_.after(late == plan_.run.comes_at_ns.end() ? 0 : late->second, [this, n] { come(NodeId(n)); });
  }
  for (const auto& [node, at] : plan_.run.dies_at_ns) network_.after(at, [this, n = node] { kill(n); });
  for (const LinkCut& cut : plan_.run.cuts) network_.after(cut.at_ns, [this, &cut] { begin(cut); });
  if (plan_.run.stop_at_ns) network_.after(*plan_.run.stop_at_ns, [this] { stop(); });
  // A bound, so that a broken core cannot make the test run for ever; a right one needs far fewer.
  int deliveries = 0;
  while (deliveries < 400'000 && !lost_ && violations_.empty() && network_.deliver_next()) ++deliveries;
  for (const auto& shard : shards_) {
    if (shard->serving() != nullptr) faults_.retransmitted_by_servers += shard->serving()->retransmitted();
  }
  faults_.retransmitted_by_nodes += surroundings_.retransmitted;
  if (ServerModel* at = serving(kAuthority))
    faults_.retransmitted_to_nodes += at->state().authority().retransmitted();
  if (violations_.empty() && !lost_) check_end();
}

// Who has just died has not heard it.
void ReplicatedRun::stop() {
  ServerModel* const at = serving(kAuthority);
  if (at == nullptr || !at->acts()) return;
  if (under_way_) return at->stop("signal");
  network_.after(1'000'000, [this] { stop(); });
}

void ReplicatedRun::begin(const LinkCut& cut) {
  if (!cut.node) return authority_breaks(*cut.server, cut.for_ns);
  for (std::uint32_t s = 0; s < shards_.size(); ++s) {
    if (!cut.server || *cut.server == ShardId(s)) cut_off(node_at(*cut.node), ShardId(s), cut.for_ns);
  }
}

void ReplicatedRun::is_gone(ShardId shard) {
  for (const auto& [party, node] : nodes_) breaks(*node, shard);
  for (std::uint32_t s = 1; s < shards_.size(); ++s) {
    if (shard == kAuthority || shard == ShardId(s)) authority_breaks(ShardId(s), 0);
  }
}

void ReplicatedRun::is_served_again(ShardId shard) {
  constexpr int kLeases = 3;
  ServerModel& server = *serving(shard);
  for (const auto& [node, who] : server.state().here()) {
    if (!server.state().has_gone(who)) watch(server, node, who, kLeases * plan_.run.lease_ns);
  }
  if (shard != kAuthority) find_authority(shard);
}

void ReplicatedRun::authority_breaks(ShardId shard, std::int64_t for_ns) {
  network_.break_connection(shard_party(shard.value), kAuthorityParty);
  ServerModel* const at = serving(shard);
  if (at == nullptr) return;  // the next one looks for it
  at->authority_broke();
  network_.after(for_ns, [this, shard] { find_authority(shard); });
}

void ReplicatedRun::find_authority(ShardId shard) {
  constexpr std::int64_t kChecksEvery = 1'000'000;
  const auto later = [this, shard] {
    network_.after(kChecksEvery, [this, shard] { find_authority(shard); });
  };
  ServerModel* const at = serving(shard);
  if (at == nullptr || at->is_welcomed()) return;
  const ServerModel* const authority = serving(kAuthority);
  // What it says that it has heard its follower must have.
  if (authority == nullptr || !authority->acts() || !at->all_is_held() || !at->acts()) return later();
  network_.connect_again(shard_party(shard.value), kAuthorityParty,
                         [this, shard, received = at->asks(), later] {
                           ServerModel* const now = serving(kAuthority);
                           now == nullptr ? later() : now->shard_joins(shard, received);
                         });
}

void ReplicatedRun::check_end() {
  std::vector<const ShardModel*> models;
  for (const auto& shard : shards_) {
    if (shard->serving() == nullptr) {
      violations_.push_back("nobody serves a shard at the end");
      return;
    }
    models.push_back(&shard->serving()->state().model());
  }
  ReplicaState& authority = serving(kAuthority)->state();
  authority.authority().checker().at_end(authority.authority().engine());
  check_gradients_at_end(models, surroundings_, violations_);
  const std::set<std::int64_t> applied =
      iterations_in(models[0]->counts(), authority.granted(), plan_.run.config.cluster, {}, violations_);
  if (std::ssize(applied) != authority.authority().engine().iterations_applied())
    violations_.push_back(std::to_string(applied.size()) + " iterations are in");
  for (const auto& [version, shards] : authority.saved()) {
    if (shards.size() != shards_.size())
      violations_.push_back("version " + to_string(version) + " is not saved by all shards");
  }
  for (const auto& shard : shards_) {
    const ServerModel* const follower = shard->follower();
    if (follower == nullptr) continue;
    ++faults_.followers_compared;
    const ReplicaState& has = follower->state();
    const ReplicaState& expected = shard->serving()->state();
    if (!(has.model().counts() == expected.model().counts()) || has.granted() != expected.granted() ||
        has.decisions() != expected.decisions())
      violations_.push_back("a follower has come to another state than the one that serves");
  }
  for (const NodeId node : joined_) node_at(node).check_finished();
}

Violations simulate(const ReplicaPlan& plan, ReplicaFaults* faults, Breach breach) {
  Violations violations;
  ReplicaFaults unasked;
  ReplicatedRun run(plan, breach, violations, faults != nullptr ? *faults : unasked);
  run.run();
  return violations;
}

}  // namespace paceline::test
