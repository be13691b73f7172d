// How a generation begins and ends, and who is there.
#include "tests/sim/generation.h"

#include <numeric>

#include "tests/sim/end_checks.h"
#include "tests/sim/late_joins.h"

namespace paceline::test {

using namespace paceline::sync;

Generation::Generation(const RunPlan& plan, std::uint32_t generation, const Checkpoint* from,
                       Violations& violations)
    : plan_(plan),
      generation_(generation),
      from_(from),
      violations_(violations),
      network_(plan.seed, generation),
      authority_(
          from == nullptr ? Engine(plan.config) : Engine::resumed(plan.config, from->state).value(),
          from == nullptr ? AuthorityChecker(plan.config, violations) : from->checker.resumed(violations),
          network_, handlers()),
      surroundings_{plan, network_, violations_, {}, plan.config.total_iterations + 2, {}},
      incarnations_(plan.config.cluster.nodes),
      unknown_(plan.config.shards) {
  // A stamp of which the gradient is lost is one more than there are iterations.
  const std::uint32_t workers = plan.config.cluster.workers();
  surroundings_.clocks += workers * (static_cast<std::int64_t>(plan.returns_after_ns.size()) + generation_);
  surroundings_.receives = [this](NodeModel& node, ShardId server, const wire::Message& message) {
    receives(node, server, message);
  };
  const Engine& engine = authority_.engine();
  for (std::uint32_t s = 0; s < plan.config.shards; ++s) {
    shards_.push_back(std::make_unique<ShardModel>(ShardId(s), plan.config.cluster, surroundings_.clocks,
                                                   violations_, engine.version(), engine.revision()));
    lines_.push_back(std::make_unique<ShardLine>(
        network_, ShardId(s), [this](const wire::Message& message) { authority_receives(message); },
        [this, s](const wire::Message& message) { shard_receives(ShardId(s), message); }, violations_));
  }
  for (std::uint32_t n = 0; n < plan.config.cluster.nodes; ++n) start(NodeId(n));
}

void Generation::run() {
  from_ == nullptr ? begin() : begin_again();
  for (const auto& [node, at] : plan_.dies_at_ns) network_.after(at, [this, n = node] { kill(n); });
  for (const LinkCut& cut : plan_.cuts) network_.after(cut.at_ns, [this, &cut] { begin(cut); });
  if (plan_.stop_at_ns)
    network_.after(*plan_.stop_at_ns, [this] { authority_.takes(StopRequested{"signal"}); });
  if (plan_.quiesces_at_ns) network_.after(*plan_.quiesces_at_ns, [this] { quiesce(); });
  if (generation_ < plan_.crashes_at_ns.size())
    network_.after(plan_.crashes_at_ns[generation_], [this] { crash(); });
  // A bound, so that a broken core cannot make the test run for ever; a right one needs far fewer
  // deliveries.
  for (int deliveries = 0;
       deliveries < 200'000 && !crashed_ && violations_.empty() && network_.deliver_next(); ++deliveries) {
  }
  faults_.grants_ahead += authority_.checker().grants_ahead();
  if (violations_.empty() && !crashed_) check_end();
}

void Generation::quiesce() {
  const Engine& engine = authority_.engine();
  if (engine.started() && !engine.finished() && !engine.stopping()) authority_.takes(QuiesceRequested{});
}

void Generation::go_on_later() {
  constexpr std::int64_t kRestsFor = 3'000'000;
  ++faults_.quiesced;
  network_.after(kRestsFor, [this] {
    if (authority_.engine().quiescing()) authority_.takes(QuiesceEnded{});
  });
}

Faults Generation::faults() const {
  Faults faults = faults_;
  faults.messages_lost = network_.messages_lost();
  faults.retransmitted_by_nodes = surroundings_.retransmitted;
  faults.retransmitted_to_nodes = authority_.retransmitted();
  for (const auto& line : lines_) faults.retransmitted_by_servers += line->retransmitted();
  return faults;
}

void Generation::start(NodeId node) {
  std::vector<std::unique_ptr<NodeModel>>& all = incarnations_[node.value];
  all.push_back(
      std::make_unique<NodeModel>(node, generation_ + static_cast<std::uint32_t>(all.size()), surroundings_));
}

void Generation::begin() {
  for (std::uint32_t n = 0; n < plan_.config.cluster.nodes; ++n) {
    const auto late = plan_.comes_at_ns.find(NodeId(n));
    if (late == plan_.comes_at_ns.end()) {
      join(NodeId(n));
    } else {
      network_.after(late->second, [this, n] { join(NodeId(n)); });
    }
  }
}

void Generation::begin_again() {
  const auto chance = [this](std::uint64_t one_in) { return network_.random().next_below(one_in) == 0; };
  std::vector<std::uint32_t> nodes(plan_.config.cluster.nodes);
  std::iota(nodes.begin(), nodes.end(), 0U);
  const LateJoins joiners = draw_joiners(plan_.config, from_->state, nodes, chance(2), chance);
  const auto give_up = [&] {
    for (const std::uint32_t node : joiners.stay_away) authority_.takes(Lost{NodeId(node)});
  };
  const bool given_up_first = workers_come_and_go(plan_.config) && chance(2);
  if (given_up_first) give_up();
  for (const std::uint32_t node : joiners.come) join(NodeId(node));
  if (!given_up_first) give_up();
}

void Generation::join(NodeId node) {
  joined_.insert(node);
  for (std::uint32_t t = 0; t < plan_.config.cluster.threads_per_node; ++t) {
    if (!authority_.takes(Joined{WorkerId(node, t)})) node_at(node).die();  // the run is over
  }
}

void Generation::kill(NodeId node) {
  if (joined_.count(node) > 0) end(node_at(node));
}

void Generation::end(NodeModel& node) {
  node.die();
  has_ended(node);
}

void Generation::has_ended(const NodeModel& node) {
  const std::int64_t lease = network_.random_between(1'000'000, 41'000'000);
  network_.after(lease, [this, id = node.id(), who = node.party()] { lose(id, who); });
}

void Generation::lose(NodeId node, Party incarnation) {
  if (incarnation != node_at(node).party()) return;
  authority_.takes(Lost{node});
  if (refused_.insert(incarnation).second)
    to_shards({wire::NodeLost{node, "", static_cast<std::uint64_t>(incarnation)}, {}});
  if (!node_at(node).is_dead()) {  // it is told, if it can be
    network_.send(kAuthorityParty, incarnation, [this, &gone = node_at(node)] { end(gone); });
  }
  if (returned_.count(node) > 0) return;
  const auto returns = plan_.returns_after_ns.find(node);
  if (returns == plan_.returns_after_ns.end()) return;
  returned_.insert(node);
  if (lost_by_lease_.count(incarnation) > 0) ++faults_.back_after_lease;
  network_.after(returns->second, [this, node] { come_back(node); });
}

void Generation::come_back(NodeId node) {
  const Party before = node_at(node).party();
  for (const std::set<Party>& gone : unknown_) {
    if (gone.count(before) == 0) return network_.after(1'000'000, [this, node] { come_back(node); });
  }
  start(node);
  join(node);
}

void Generation::check_end() {
  authority_.checker().at_end(authority_.engine());
  std::vector<const ShardModel*> shards;
  for (const auto& shard : shards_) shards.push_back(shard.get());
  check_gradients_at_end(shards, surroundings_, violations_);
  const std::int64_t applied = std::ssize(iterations_in(shards_[0]->counts()));
  if (applied != authority_.engine().iterations_applied())
    violations_.push_back(std::to_string(applied) + " iterations are in");
  for (std::uint32_t n = 0; n < incarnations_.size(); ++n) {
    if (joined_.count(NodeId(n)) > 0) node_at(NodeId(n)).check_finished();
  }
}

}  // namespace paceline::test
