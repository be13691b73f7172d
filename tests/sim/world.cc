#include "tests/sim/world.h"

#include <memory>
#include <utility>

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
        surroundings_{plan, network_, shards_, violations_, {}, plan.config.total_iterations + 2, {}} {
    for (std::uint32_t s = 0; s < plan.config.shards; ++s) {
      shards_.push_back(
          std::make_unique<ShardModel>(ShardId(s), plan.config.cluster, surroundings_.clocks, violations_));
    }
    surroundings_.tell_authority = [this](Party from, Event event) {
      network_.send(from, kAuthorityParty, [this, event] { authority_takes(event); });
    };
    for (std::uint32_t n = 0; n < plan.config.cluster.nodes; ++n) {
      nodes_.push_back(std::make_unique<NodeModel>(NodeId(n), surroundings_));
    }
  }

  Violations run() {
    for (std::uint32_t r = 0; r < plan_.config.cluster.workers(); ++r) {
      authority_takes(Joined{plan_.config.cluster.worker_at(Rank(r))});
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
  void kill(NodeId node) {
    nodes_[node.value]->die();
    const std::int64_t lease =
        1'000'000 + static_cast<std::int64_t>(network_.random().next_below(40'000'000));
    network_.after(lease, [this, node] { authority_takes(Lost{node}); });
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
      const std::uint32_t n = grant->worker.node.value;
      network_.send(kAuthorityParty, node_party(n), [this, n, g = *grant] { nodes_[n]->on_grant(g); });
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
  std::vector<std::unique_ptr<NodeModel>> nodes_;
};

}  // namespace

Violations simulate(const RunPlan& plan, Traffic* traffic) {
  World world(plan);
  Violations violations = world.run();
  if (traffic != nullptr) *traffic = world.traffic();
  return violations;
}

}  // namespace paceline::test
