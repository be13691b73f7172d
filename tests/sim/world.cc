#include "tests/sim/world.h"

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "common/sync/engine.h"
#include "tests/sim/authority_checker.h"
#include "tests/sim/network.h"
#include "tests/sim/node_model.h"
#include "tests/sim/shard_model.h"

namespace paceline::test {
namespace {

using namespace paceline::sync;

class World {
 public:
  explicit World(const RunPlan& plan)
      : plan_(plan),
        network_(plan.seed),
        engine_(plan.config),
        checker_(plan.config, violations_),
        surroundings_{plan, network_, shards_, violations_, {}, plan.config.total_iterations + 2, {}},
        incarnations_(plan.config.cluster.nodes) {
    // A stamp of which the gradient is lost is one more than there are iterations.
    const std::uint32_t workers = plan.config.cluster.workers();
    surroundings_.clocks += workers * static_cast<std::int64_t>(plan.returns_after_ns.size());
    for (std::uint32_t s = 0; s < plan.config.shards; ++s) {
      shards_.push_back(
          std::make_unique<ShardModel>(ShardId(s), plan.config.cluster, surroundings_.clocks, violations_));
    }
    surroundings_.tell_authority = [this](Party from, Event event) {
      network_.send(from, kAuthorityParty, [this, from, event] {
        const auto* const lost = std::get_if<Lost>(&event);
        lost != nullptr ? lose(lost->node, from) : authority_takes(event);
      });
    };
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
    if (plan_.stop_at_ns)
      network_.after(*plan_.stop_at_ns, [this] { authority_takes(StopRequested{"signal"}); });
    // A bound, so that a broken core cannot make the test run for ever; a right one needs far fewer
    // deliveries.
    for (int deliveries = 0; deliveries < 200'000 && network_.deliver_next() && violations_.empty();
         ++deliveries) {
    }
    if (!violations_.empty()) return violations_;
    checker_.at_end(engine_);
    for (const auto& shard : shards_) {
      shard->check_empty();
      if (!(shard->counts() == shards_[0]->counts()))
        violations_.push_back("the shards hold different gradients");
    }
    return violations_;
  }

  Traffic traffic() const { return {surroundings_.pulls, surroundings_.server_reads}; }

 private:
  NodeModel& node_at(NodeId node) { return *incarnations_[node.value].back(); }

  void join(NodeId node) {
    joined_.insert(node);
    for (std::uint32_t t = 0; t < plan_.config.cluster.threads_per_node; ++t) {
      authority_takes(Joined{WorkerId(node, t)});
    }
  }

  void kill(NodeId node) {
    if (joined_.count(node) == 0) return;
    node_at(node).die();
    const std::int64_t lease =
        1'000'000 + static_cast<std::int64_t>(network_.random().next_below(40'000'000));
    network_.after(lease, [this, node, who = node_at(node).party()] { lose(node, who); });
  }

  // Of an incarnation that another has followed nothing more is lost.
  void lose(NodeId node, Party incarnation) {
    if (incarnation != node_at(node).party()) return;
    authority_takes(Lost{node});
    if (returned_.count(node) > 0) return;
    const auto returns = plan_.returns_after_ns.find(node);
    if (returns == plan_.returns_after_ns.end()) return;
    returned_.insert(node);
    network_.after(returns->second, [this, node] {
      incarnations_[node.value].push_back(std::make_unique<NodeModel>(
          node, static_cast<std::uint32_t>(incarnations_[node.value].size()), surroundings_));
      join(node);
    });
  }

  void authority_takes(const Event& event) {
    if (network_.random().next_below(10) == 0 && !std::holds_alternative<Tick>(event))
      authority_takes(Tick{});
    std::vector<Action> actions;
    const Ticks now(network_.now_ns());
    checker_.before(event, now);
    engine_.step(event, now, actions);
    checker_.after(actions);
    for (const Action& action : actions) carry_out(action);
  }

  void carry_out(const Action& action) {
    if (const auto* apply = std::get_if<Apply>(&action)) {
      to_shards([a = *apply](ShardModel& shard) { shard.apply(a); });
    } else if (const auto* discard = std::get_if<Discard>(&action)) {
      surroundings_.fates[{discard->worker, discard->clock}] = Fate::kDiscarded;
      to_shards([d = *discard](ShardModel& shard) { shard.discard(d); });
    } else if (const auto* grant = std::get_if<Grant>(&action)) {
      NodeModel& node = node_at(grant->worker.node);
      network_.send(kAuthorityParty, node.party(), [&node, g = *grant] { node.on_grant(g); });
    }
  }

  template <typename F>
  void to_shards(F f) {
    for (std::uint32_t s = 0; s < shards_.size(); ++s) {
      network_.send(kAuthorityParty, shard_party(s), [this, s, f] { f(*shards_[s]); });
    }
  }

  const RunPlan& plan_;
  Violations violations_;
  Network network_;
  Engine engine_;
  AuthorityChecker checker_;
  std::vector<std::unique_ptr<ShardModel>> shards_;
  Surroundings surroundings_;
  std::vector<std::vector<std::unique_ptr<NodeModel>>> incarnations_;  // by node; the last one is there
  std::set<NodeId> joined_, returned_;
};

}  // namespace

Violations simulate(const RunPlan& plan, Traffic* traffic) {
  World world(plan);
  Violations violations = world.run();
  if (traffic != nullptr) *traffic = world.traffic();
  return violations;
}

}  // namespace paceline::test
