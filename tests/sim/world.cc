#include "tests/sim/world.h"

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "tests/sim/authority_model.h"
#include "tests/sim/network.h"
#include "tests/sim/node_model.h"
#include "tests/sim/shard_line.h"
#include "tests/sim/shard_model.h"

namespace paceline::test {
namespace {

using namespace paceline::sync;

class World {
 public:
  explicit World(const RunPlan& plan)
      : plan_(plan),
        network_(plan.seed),
        authority_(Engine(plan.config), AuthorityChecker(plan.config, violations_), network_, hearers()),
        surroundings_{plan, network_, violations_, {}, plan.config.total_iterations + 2, {}},
        incarnations_(plan.config.cluster.nodes) {
    // A stamp of which the gradient is lost is one more than there are iterations.
    const std::uint32_t workers = plan.config.cluster.workers();
    surroundings_.clocks += workers * static_cast<std::int64_t>(plan.returns_after_ns.size());
    surroundings_.hears = [this](NodeModel& from, ShardId server, const wire::Message& message) {
      hears(from, server, message);
    };
    for (std::uint32_t s = 0; s < plan.config.shards; ++s) {
      shards_.push_back(
          std::make_unique<ShardModel>(ShardId(s), plan.config.cluster, surroundings_.clocks, violations_));
      lines_.push_back(std::make_unique<ShardLine>(
          network_, ShardId(s), [this](const wire::Message& message) { authority_hears(message); },
          [this, s](const wire::Message& message) { shards_[s]->hears(message); }, violations_));
    }
    for (std::uint32_t n = 0; n < plan.config.cluster.nodes; ++n) {
      incarnations_[n].push_back(std::make_unique<NodeModel>(NodeId(n), 0, surroundings_));
    }
  }

  Violations run() {
    for (std::uint32_t n = 0; n < plan_.config.cluster.nodes; ++n) {
      const auto late = plan_.comes_at_ns.find(NodeId(n));
      if (late == plan_.comes_at_ns.end()) {
        join(NodeId(n));
      } else {
        network_.after(late->second, [this, n] { join(NodeId(n)); });
      }
    }
    for (const auto& [node, at] : plan_.dies_at_ns) network_.after(at, [this, n = node] { kill(n); });
    for (const LinkCut& cut : plan_.cuts) network_.after(cut.at_ns, [this, &cut] { begin(cut); });
    if (plan_.stop_at_ns)
      network_.after(*plan_.stop_at_ns, [this] { authority_.takes(StopRequested{"signal"}); });
    // A bound, so that a broken core cannot make the test run for ever; a right one needs far fewer
    // deliveries.
    for (int deliveries = 0; deliveries < 200'000 && network_.deliver_next() && violations_.empty();
         ++deliveries) {
    }
    if (violations_.empty()) check_end();
    return violations_;
  }

  Traffic traffic() const { return {surroundings_.pulls, surroundings_.server_reads}; }
  Faults faults() const {
    Faults faults = faults_;
    faults.messages_lost = network_.messages_lost();
    faults.said_again_by_nodes = surroundings_.said_again;
    faults.said_again_to_nodes = authority_.said_again();
    for (const auto& line : lines_) faults.said_again_by_servers += line->said_again();
    return faults;
  }

 private:
  NodeModel& node_at(NodeId node) { return *incarnations_[node.value].back(); }

  // ---- who says what to whom

  AuthorityModel::Hearers hearers() {
    return {[this](WorkerId worker, const AuthorityModel::Instruction& what) { to_node(worker, what); },
            [this](const wire::Message& message) { to_shards(message); },
            [this](const Discard& d) {
              surroundings_.fates[{d.worker, d.clock}] = Fate::kDiscarded;
            }};
  }

  void to_node(WorkerId worker, const AuthorityModel::Instruction& what) {
    NodeModel& node = node_at(worker.node);
    network_.send(kAuthorityParty, node.party(), [&node, what] {
      if (const auto* grant = std::get_if<Grant>(&what)) node.on_grant(*grant);
      if (const auto* finish = std::get_if<FinishWorker>(&what)) node.on_finish(finish->worker);
    });
  }

  // The authority's own is in its process.
  void to_shards(const wire::Message& message) {
    network_.send(kAuthorityParty, shard_party(0), [this, message] { shards_[0]->hears(message); });
    for (std::uint32_t s = 1; s < shards_.size(); ++s) lines_[s]->to_shard(message);
  }
  void to_authority(ShardId from, const wire::Message& message) {
    if (from != kAuthority) return lines_[from.value]->to_authority(message);
    network_.send(shard_party(0), kAuthorityParty, [this, message] { authority_hears(message); });
  }

  void authority_hears(const wire::Message& message) {
    if (const auto* a = std::get_if<wire::GradientArrived>(&message.body)) {
      authority_.takes(GradientArrived{a->shard, a->worker, a->clock, a->samples, a->fault});
    } else if (const auto* lost = std::get_if<wire::NodeLost>(&message.body)) {
      lose(lost->node, static_cast<Party>(lost->incarnation));
    }
  }

  void hears(NodeModel& from, ShardId server, const wire::Message& message) {
    if (const auto* r = std::get_if<wire::StepReport>(&message.body)) {
      authority_.takes(StepReported{r->worker, r->clock, r->metric, r->computed_version, r->computed_revision,
                                    r->skipped, r->fault, r->own_updates});
    } else if (std::holds_alternative<wire::Leave>(message.body)) {
      lose(from.id(), from.party());
    } else if (const auto* push = std::get_if<wire::Push>(&message.body)) {
      takes(server, *push, message.payload);
    } else if (const auto* pull = std::get_if<wire::Pull>(&message.body)) {
      shards_[server.value]->pull(from.id(), pull->min_version,
                                  [this, &from, server, request = pull->request](const SliceAnswer& answer) {
                                    // In any order: answers to different pulls may overtake each other, as
                                    // they do between a node's connections.
                                    network_.send_in_any_order(shard_party(server.value), from.party(),
                                                               [&from, server, request, answer] {
                                                                 from.on_answer(request, server, answer);
                                                               });
                                  });
    }
  }

  void takes(ShardId shard, const wire::Push& push, const wire::Payload& payload) {
    ShardModel& model = *shards_[shard.value];
    if (!push.last) return model.begin_push(push.worker, push.clock);
    if (!model.finish_push(push.worker, push.clock)) return;
    const bool finite = payload.floats()[0] == payload.floats()[0];
    const wire::GradientArrived arrived{shard, push.worker, push.clock, push.samples,
                                        finite ? "" : "conv1.weight"};
    if (chance(plan_.other_samples_chance)) {
      to_authority(shard, {wire::GradientArrived{shard, push.worker, push.clock, push.samples + 8, ""}, {}});
    }
    to_authority(shard, {arrived, {}});
    if (network_.random().next_double() < plan_.duplicate_chance) to_authority(shard, {arrived, {}});
  }
  bool chance(double of) { return of > 0.0 && network_.random().next_double() < of; }

  // ---- who is there

  void join(NodeId node) {
    joined_.insert(node);
    for (std::uint32_t t = 0; t < plan_.config.cluster.threads_per_node; ++t) {
      if (!authority_.takes(Joined{WorkerId(node, t)})) node_at(node).die();  // the run is over
    }
  }

  void kill(NodeId node) {
    if (joined_.count(node) > 0) end(node_at(node));
  }

  void end(NodeModel& node) {
    node.die();
    has_ended(node);
  }
  // Which is noticed within a lease.
  void has_ended(const NodeModel& node) {
    const std::int64_t lease = network_.random_between(1'000'000, 41'000'000);
    network_.after(lease, [this, id = node.id(), who = node.party()] { lose(id, who); });
  }

  // Of an incarnation that another has followed nothing more is lost.
  void lose(NodeId node, Party incarnation) {
    if (incarnation != node_at(node).party()) return;
    authority_.takes(Lost{node});
    refused_.insert(incarnation);
    if (!node_at(node).is_dead()) {  // it is told, if it can be
      network_.send(kAuthorityParty, incarnation, [this, &gone = node_at(node)] { end(gone); });
    }
    if (returned_.count(node) > 0) return;
    const auto returns = plan_.returns_after_ns.find(node);
    if (returns == plan_.returns_after_ns.end()) return;
    returned_.insert(node);
    if (lost_by_lease_.count(incarnation) > 0) ++faults_.back_after_lease;
    network_.after(returns->second, [this, node] {
      incarnations_[node.value].push_back(std::make_unique<NodeModel>(
          node, static_cast<std::uint32_t>(incarnations_[node.value].size()), surroundings_));
      join(node);
    });
  }

  // ---- connections that break

  void begin(const LinkCut& cut) {
    if (!cut.node) return begin_between_servers(cut);
    for (std::uint32_t s = 0; s < shards_.size(); ++s) {
      if (!cut.server || *cut.server == ShardId(s)) cut_off(*cut.node, ShardId(s), cut.for_ns);
    }
  }

  void begin_between_servers(const LinkCut& cut) {
    ShardLine& line = *lines_[cut.server->value];
    if (line.is_broken()) return;
    ++faults_.shards_cut;
    line.breaks();
    network_.after(cut.for_ns, [&line] { line.goes_on(); });
  }

  void cut_off(NodeId id, ShardId server, std::int64_t for_ns) {
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
    if (!missed_since_.emplace(link, now).second) return;
    // Either end waits for the other so long, each by its own clock.
    network_.after(plan_.lease_ns, [this, &node, server, link, now] {
      const auto since = missed_since_.find(link);
      if (since != missed_since_.end() && since->second == now) miss(node, server);
    });
    network_.after(plan_.lease_ns + network_.random_between(0, 2'000'000), [this, &node, server, now] {
      if (!node.is_dead() && node.broken_since(server) == Ticks(now)) end(node);
    });
  }

  // The server has not heard of it for a lease.
  void miss(NodeModel& node, ShardId server) {
    if (refused_.count(node.party()) == 0 && !node.is_dead()) {
      ++faults_.lost_by_lease;
      lost_by_lease_.insert(node.party());
    }
    if (server == kAuthority) return lose(node.id(), node.party());
    const auto incarnation = static_cast<std::uint64_t>(node.party());
    to_authority(server, {wire::NodeLost{node.id(), "silent", incarnation}, {}});
  }

  void join_again(NodeModel& node, ShardId server) {
    const Party there = shard_party(server.value);
    network_.connect_again(node.party(), there, [this, &node, server, there] {
      if (refused_.count(node.party()) > 0) {
        return network_.send(there, node.party(), [this, &node] { end(node); });
      }
      ++faults_.gone_on;
      missed_since_.erase({node.party(), server});
      shards_[server.value]->rejoined(node.id());
      network_.send(there, node.party(),
                    [this, &node, server] { node.is_dead() ? has_ended(node) : node.is_welcomed(server); });
      if (server == kAuthority) authority_.node_rejoined(node.id());
    });
  }

  // ----

  void check_end() {
    authority_.checker().at_end(authority_.engine());
    for (const auto& shard : shards_) {
      shard->check_empty();
      if (!(shard->counts() == shards_[0]->counts()))
        violations_.push_back("the shards hold different gradients");
    }
    // Nothing that was pushed is lost, unless it was discarded; nor is anything in that was not pushed.
    for (const auto& [gradient, fate] : surroundings_.fates) {
      const auto& [worker, clock] = gradient;
      const int times = shards_[0]->counts().of(plan_.config.cluster.rank_of(worker), clock);
      if (times != (fate == Fate::kPushed ? 1 : 0))
        violations_.push_back(to_string(worker) + "@" + to_string(clock) + " is in " + std::to_string(times) +
                              " times at the end");
    }
    for (std::uint32_t n = 0; n < incarnations_.size(); ++n) {
      if (joined_.count(NodeId(n)) > 0) node_at(NodeId(n)).check_finished();
    }
  }

  const RunPlan& plan_;
  Violations violations_;
  Network network_;
  AuthorityModel authority_;
  std::vector<std::unique_ptr<ShardModel>> shards_;
  std::vector<std::unique_ptr<ShardLine>> lines_;
  Surroundings surroundings_;
  std::vector<std::vector<std::unique_ptr<NodeModel>>> incarnations_;  // by node; the last one is there
  std::set<NodeId> joined_, returned_;
  std::set<Party> refused_, lost_by_lease_;  // incarnations that are lost
  std::map<std::pair<Party, ShardId>, std::int64_t> missed_since_, cut_until_;
  Faults faults_;
};

}  // namespace

Faults& Faults::operator+=(const Faults& other) {
  nodes_cut += other.nodes_cut;
  shards_cut += other.shards_cut;
  messages_lost += other.messages_lost;
  gone_on += other.gone_on;
  said_again_by_nodes += other.said_again_by_nodes;
  said_again_to_nodes += other.said_again_to_nodes;
  said_again_by_servers += other.said_again_by_servers;
  lost_by_lease += other.lost_by_lease;
  back_after_lease += other.back_after_lease;
  return *this;
}

Violations simulate(const RunPlan& plan, Traffic* traffic, Faults* faults) {
  World world(plan);
  Violations violations = world.run();
  if (traffic != nullptr) *traffic = world.traffic();
  if (faults != nullptr) *faults = world.faults();
  return violations;
}

}  // namespace paceline::test
