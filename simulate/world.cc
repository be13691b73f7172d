#include "simulate/world.h"

#include <utility>

#include "common/assert.h"
#include "common/config/cluster_events.h"
#include "common/config/names.h"
#include "simulate/virtual_time.h"

namespace paceline::simulate {
namespace {

std::vector<Server> servers_of(const Surroundings& world) {
  std::vector<Server> servers;
  servers.reserve(world.plan.shards.size());
  for (std::uint32_t k = 0; k < world.plan.shards.size(); ++k) {
    servers.emplace_back(ShardId(k), world.plan, world.events, world.network, world.pulls, world.training);
  }
  return servers;
}

trace::Process simulated_process(std::optional<ShardId> server, NodeId node) {
  trace::Process process;
  process.server = server;
  process.node = node;
  process.machine = "simulated";
  return process;
}

}  // namespace

World::World(const Plan& plan, Computation& computation, Watcher* watcher, Reductions* reductions,
             Pipelines* pipelines, NormGroups* norms)
    : plan_(plan),
      network_(plan.config.simulate.network, plan.cluster.nodes,
               static_cast<std::uint32_t>(plan.shards.size()), events_),
      pulls_(static_cast<std::uint32_t>(plan.shards.size())),
      pipelines_(pipelines),
      surroundings_{plan_,       events_,
                    network_,    pulls_,
                    computation, computation.training(),
                    reductions,  pipelines != nullptr ? static_cast<GroupSteps*>(pipelines) : norms,
                    phase_clock_},
      servers_(servers_of(surroundings_)),
      nodes_(surroundings_),
      record_(plan, surroundings_.training != nullptr),
      authority_(surroundings_, nodes_, servers_, record_, watcher) {}

Result<Outcome> World::run() {
  const std::vector<bool> late = late_nodes(plan_.config);
  for (std::uint32_t n = 0; n < plan_.cluster.nodes; ++n) {
    if (!late[n]) join(n, events_.now());
  }
  plan_events();
  if (const auto& limit = plan_.config.run.max_seconds) {
    events_.at(record_.first_grant() + *limit, {EventKind::kStop, 0, 0});
  }
  while (!events_.empty()) {
    const Event event = events_.next();
    if (events_.now() == kEndOfTime) return endless();
    ++events_taken_;
    dispatch(event, events_.now());
    if (surroundings_.training != nullptr) PACELINE_RETURN_IF_ERROR(surroundings_.training->status());
  }
  PACELINE_ASSERT(engine().finished(), "nothing is going to happen, and the run is not over");
  return outcome();
}

// Each join is an incarnation of its own, but for the first of a node that is not there at the start.
void World::plan_events() {
  std::vector<bool> late = late_nodes(plan_.config);
  for (const ClusterEvent& event : in_order(plan_.config.simulate.events)) {
    const Ticks at = record_.first_grant() + event.at;
    if (event.kind == ClusterEventKind::kCrash) {
      events_.at(at, {EventKind::kCrash, event.node, 0});
      continue;
    }
    const std::uint32_t incarnation = late[event.node] ? event.node : nodes_.add(NodeId(event.node));
    late[event.node] = false;
    events_.at(at, {EventKind::kJoin, incarnation, 0});
  }
}

Status World::endless() const {
  const RunConfig& config = plan_.config;
  const bool emulated = config.simulate.compute.distribution == ComputeKind::kEmulated;
  return invalid_argument(
      "simulate.compute: the run is not over after a century of virtual time, got " +
      std::to_string(config.train.iterations_in(engine().iterations_applied())) + " of " +
      std::to_string(config.train.total_iterations) +
      " iterations, expected less: " + (emulated ? "emulate.base_step, emulate.slowdown" : "mean, slowdown") +
      ", slow_factor, pause_length, or simulate.costs, or a larger simulate.network bandwidth");
}

void World::dispatch(const Event& e, Ticks now) {
  switch (e.kind) {
    case EventKind::kGrantArrives:
    case EventKind::kFinishArrives:
    case EventKind::kComputeBegins:
    case EventKind::kComputeEnds:
    case EventKind::kPushSent:
    case EventKind::kReduced:
      if (!nodes_.of_worker(e.a).crashed()) dispatch(e.kind, nodes_.worker(e.a), now);
      return;
    // What had not left whole when its node crashed comes to nothing.
    case EventKind::kPushArrives:
      if (nodes_.of_worker(e.b).has_left(nodes_.thread_of(e.b), e.c)) {
        servers_[e.a].push_arrives(e.b, e.c, now);
      }
      return;
    case EventKind::kReportArrives:
      if (nodes_.of_worker(e.a).has_left(nodes_.thread_of(e.a), e.c)) {
        servers_[0].report_arrives(e.a, e.c, now);
      }
      return;
    case EventKind::kPartArrives:
      return;
    case EventKind::kPushTaken:
      return push_taken(ShardId(e.a), e.b, e.c, now);
    case EventKind::kReportTaken:
      return authority_.reported(e.a, e.c, now);
    case EventKind::kArrivalReported:
      events_.at(servers_[0].loop().take(plan_.costs.message, now),
                 {EventKind::kArrivalTaken, e.a, e.b, e.c});
      return;
    case EventKind::kArrivalTaken:
      return authority_.gradient_arrived(ShardId(e.a), e.b, e.c, now);
    case EventKind::kDecisionArrives:
      return authority_.decision_arrives(ShardId(e.a), e.b, now);
    case EventKind::kDecisionApplied:
      return authority_.applied(ShardId(e.a), e.b, now);
    case EventKind::kPullArrives:
      return servers_[e.a].pull_arrives(e.b, now);
    case EventKind::kPullTaken:
      return take_pull(ShardId(e.a), e.b, now);
    case EventKind::kReplySent:
      return servers_[e.a].reply_sent(e.b, now);
    case EventKind::kAnswerArrives:
      return answer_arrives(ShardId(e.a), e.b, now);
    case EventKind::kUnchanged:
      return nodes_[pulls_[e.b].incarnation].unchanged(e.b, ShardId(e.a), now);
    case EventKind::kParametersHere:
      return nodes_[pulls_[e.a].incarnation].parameters_here(e.a, now);
    case EventKind::kFlowEnters:
      return network_.flow_enters(e.a, now);
    case EventKind::kLinkIsThrough:
      return network_.link_is_through(e.a, now);
    case EventKind::kCrash:
      return crash(NodeId(e.a), now);
    case EventKind::kLost:
      return lose(e.a, "silent for " + in_seconds(plan_.config.cluster.lease), now);
    case EventKind::kJoin:
      return join(e.a, now);
    case EventKind::kStop:
      if (!engine().finished()) authority_.step(sync::StopRequested{"max_seconds"}, now);
      return;
  }
}

void World::dispatch(EventKind kind, Worker& worker, Ticks now) {
  if (kind == EventKind::kGrantArrives) worker.grant_arrives(now);
  if (kind == EventKind::kFinishArrives) worker.finish_arrives(now);
  if (kind == EventKind::kComputeBegins) worker.compute_begins(now);
  if (kind == EventKind::kComputeEnds) worker.compute_ends(now);
  if (kind == EventKind::kPushSent) worker.push_sent(now);
  if (kind == EventKind::kReduced) worker.reduced(now);
}

void World::push_taken(ShardId shard, std::uint32_t worker, std::uint32_t stamp, Ticks now) {
  const SentStep& sent = nodes_.worker(worker).sent().at(stamp);
  Training* const training = surroundings_.training;
  if (training != nullptr && authority_.is_live(worker)) {
    std::string fault = training->push_taken(shard, plan_.cluster.rank_of(nodes_.id_of(worker)), sent.clock);
    if (!fault.empty()) authority_.note_fault(shard, worker, stamp, std::move(fault));
  }
  const std::optional<std::uint32_t> pull_after =
      sent.pull_after && pulls_[*sent.pull_after].ticket == sent.pull_ticket ? sent.pull_after : std::nullopt;
  if (shard == kAuthority) {
    authority_.gradient_arrived(shard, worker, stamp, now);
    authority_.reported(worker, stamp, now);
  } else {
    network_.message({EventKind::kArrivalReported, shard.value, worker, stamp}, now);
  }
  // On one connection the pull that was sent after the push is taken after it.
  if (const auto pull = pull_after; pull && plan_.slice_of(shard, pulls_[*pull].fragment)) {
    servers_[shard.value].pull_arrives(*pull, now);
  }
}

// When its node has come back nobody waits for what it asked for before.
void World::take_pull(ShardId shard, std::uint32_t pull, Ticks now) {
  const Pull& asked = pulls_[pull];
  if (nodes_.there(asked.node) == asked.incarnation) servers_[shard.value].take_pull(pull, now);
}

void World::answer_arrives(ShardId shard, std::uint32_t pull, Ticks now) {
  nodes_[pulls_[pull].incarnation].answer_arrives(pull, shard, now);
  servers_[shard.value].reply_delivered(now);
}

void World::crash(NodeId node, Ticks now) {
  const std::uint32_t incarnation = nodes_.there(node);
  if (engine().finished() || nodes_[incarnation].crashed()) return;
  nodes_[incarnation].crash(now);
  events_.at(now + plan_.config.cluster.lease, {EventKind::kLost, incarnation, 0});
}

void World::lose(std::uint32_t incarnation, const std::string& why, Ticks now) {
  if (engine().finished() || !nodes_.takes_part(incarnation)) return;
  nodes_.lose(incarnation);
  const Node& node = nodes_[incarnation];
  if (!node.reported()) {  // else it has left
    const auto crashed = node.crashed_at() - record_.first_grant();
    record_.churn().lost(node.id(), why + ", crashed at " + in_seconds(crashed));
  }
  for (Server& server : servers_) server.lose(node.id());
  authority_.step(sync::Lost{node.id()}, now);
}

// At the start, later, or back again. When training ends nobody is let in any more. That the incarnation
// before is lost at once, though its lease is not over, is the simulator's choice: at the daemons another one
// waits until its loss is known, and is refused where it is alive (docs/PROTOCOL.md).
void World::join(std::uint32_t incarnation, Ticks now) {
  if (engine().finished() || engine().stopping()) return;
  const NodeId node = nodes_[incarnation].id();
  const std::uint32_t before = nodes_.replace(incarnation);
  const Version version = engine().version();
  if (before != incarnation) {
    lose(before, "came back", now);
    if (engine().finished()) return;
    record_.churn().returned(node, version);
    for (Server& server : servers_) server.join(node);
    if (surroundings_.training != nullptr) surroundings_.training->comes_back(node);
  } else if (engine().started()) {
    record_.churn().came_late(node, version);
  }
  nodes_.come(incarnation);
  for (std::uint32_t t = 0; t < plan_.cluster.threads_per_node; ++t) {
    authority_.step(sync::Joined{WorkerId(node, t)}, now);
  }
}

Result<Outcome> World::outcome() {
  std::optional<ModelFile> model = authority_.finish_model();
  if (surroundings_.training != nullptr) PACELINE_RETURN_IF_ERROR(surroundings_.training->status());
  RunSummary& summary = record_.summary();
  for (const Server& server : servers_) {
    summary.bytes_pushed += server.bytes_pushed();
    summary.bytes_pulled += server.bytes_pulled();
    summary.pulls += server.pulls_taken();
  }
  if (surroundings_.reductions != nullptr) {
    summary.exchange = name_of(ExchangeKind::kAllreduce);
    summary.bytes_reduced = surroundings_.reductions->bytes_sent();
  }
  if (pipelines_ != nullptr) summary.pipeline = pipelines_->summary();
  Outcome out = record_.finish(engine(), nodes_.phases(), nodes_.totals());
  if (const auto& log = authority_.log()) {
    out.recorded = trace_of(*log);
    out.summary.traced = {out.recorded->events(), out.recorded->left_out()};
  }
  out.model = std::move(model);
  out.events = events_taken_;
  return out;
}

// What its processes would have recorded, in virtual time.
trace::Trace World::trace_of(const trace::DecisionLog& log) const {
  trace::Trace trace;
  log.add_to(trace);
  trace.processes.push_back(simulated_process(kAuthority, NodeId(0)));
  for (std::uint32_t n = 0; n < plan_.cluster.nodes; ++n) {
    trace.processes.push_back(simulated_process(std::nullopt, NodeId(n)));
  }
  trace.workers = nodes_.spans();
  if (pipelines_ != nullptr) pipelines_->add_passes(trace);
  return trace;
}

}  // namespace paceline::simulate
