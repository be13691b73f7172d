#include "simulate/world.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "common/config/cluster_events.h"
#include "common/config/names.h"
#include "common/report/counted.h"
#include "common/trace/bound.h"

namespace paceline::simulate {
namespace {

std::string in_seconds(std::chrono::nanoseconds d) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g s", to_seconds(d));
  return text;
}

// Of one that reported, and came back, the phases of both times.
void join_incarnations(std::vector<WorkerPhases>& phases) {
  std::stable_sort(phases.begin(), phases.end(),
                   [](const WorkerPhases& a, const WorkerPhases& b) { return a.worker < b.worker; });
  std::vector<WorkerPhases> joined;
  for (const WorkerPhases& worker : phases) {
    if (joined.empty() || joined.back().worker != worker.worker) {
      joined.push_back(worker);
    } else {
      merge(joined.back().totals, worker.totals);
    }
  }
  phases = std::move(joined);
}

}  // namespace

World::World(const Plan& plan, Computation& computation, Watcher* watcher, Reductions* reductions,
             Pipelines* pipelines, NormGroups* norms)
    : plan_(plan),
      network_(plan.config.simulate.network, plan.cluster.nodes,
               static_cast<std::uint32_t>(plan.shards.size()), events_),
      pulls_(static_cast<std::uint32_t>(plan.shards.size())),
      training_(computation.training()),
      reductions_(reductions),
      pipelines_(pipelines),
      surroundings_{plan_,       events_,
                    network_,    pulls_,
                    computation, training_,
                    reductions_, pipelines != nullptr ? static_cast<GroupSteps*>(pipelines) : norms,
                    phase_clock_},
      engine_(plan.engine),
      watcher_(watcher),
      staleness_(plan.cluster),
      progress_(plan.cluster) {
  const TrainSection& train = plan.config.train;
  if (train.sizing() != BatchSizing::kEqual) {
    batch_sizes_.emplace(plan.cluster, train.round_samples(), train.rounds());
  }
  if (plan.config.run.trace) trace_.emplace(trace::decision_events(plan.config.run.trace_events));
  servers_.reserve(plan.shards.size());
  for (std::uint32_t k = 0; k < plan.shards.size(); ++k) {
    servers_.emplace_back(ShardId(k), plan_, events_, network_, pulls_, training_);
  }
  nodes_.reserve(plan.cluster.nodes);
  for (std::uint32_t n = 0; n < plan.cluster.nodes; ++n) {
    nodes_.emplace_back(NodeId(n), n, surroundings_);
    there_.push_back(n);
  }
  presence_.resize(nodes_.size(), Presence::kAbsent);
}

Result<Outcome> World::run() {
  const std::vector<bool> late = late_nodes(plan_.config);
  for (std::uint32_t n = 0; n < plan_.cluster.nodes; ++n) {
    if (!late[n]) join(n, events_.now());
  }
  plan_events();
  if (const auto& limit = plan_.config.run.max_seconds) {
    events_.at(first_grant_ + *limit, {EventKind::kStop, 0, 0});
  }
  while (!events_.empty()) {
    const Event event = events_.next();
    if (events_.now() == kEndOfTime) return endless();
    ++events_taken_;
    dispatch(event, events_.now());
    if (training_ != nullptr) PACELINE_RETURN_IF_ERROR(training_->status());
  }
  PACELINE_ASSERT(engine_.finished(), "nothing is going to happen, and the run is not over");
  return outcome();
}

// Each join is an incarnation of its own, but for the first of a node that is not there at the start.
void World::plan_events() {
  std::vector<bool> late = late_nodes(plan_.config);
  for (const ClusterEvent& event : in_order(plan_.config.simulate.events)) {
    const Ticks at = first_grant_ + event.at;
    if (event.kind == ClusterEventKind::kCrash) {
      events_.at(at, {EventKind::kCrash, event.node, 0});
      continue;
    }
    std::uint32_t incarnation = event.node;
    if (!late[event.node]) {
      incarnation = static_cast<std::uint32_t>(nodes_.size());
      nodes_.emplace_back(NodeId(event.node), incarnation, surroundings_);
      presence_.push_back(Presence::kAbsent);
    }
    late[event.node] = false;
    events_.at(at, {EventKind::kJoin, incarnation, 0});
  }
}

Status World::endless() const {
  const RunConfig& config = plan_.config;
  const bool emulated = config.simulate.compute.distribution == ComputeKind::kEmulated;
  return invalid_argument(
      "simulate.compute: the run is not over after a century of virtual time, got " +
      std::to_string(config.train.iterations_in(engine_.iterations_applied())) + " of " +
      std::to_string(config.train.total_iterations) +
      " iterations, expected less: " + (emulated ? "emulate.base_step, emulate.slowdown" : "mean, slowdown") +
      ", slow_factor, pause_length, or simulate.costs, or a larger simulate.network bandwidth");
}

void World::dispatch(const Event& e, Ticks now) {
  switch (e.kind) {
    case EventKind::kGrantArrives:
      return node_at(e.a).grant_arrives(thread_of(e.a), now);
    case EventKind::kFinishArrives:
      return node_at(e.a).finish_arrives(thread_of(e.a), now);
    case EventKind::kComputeBegins:
      return node_at(e.a).compute_begins(thread_of(e.a), now);
    case EventKind::kComputeEnds:
      return node_at(e.a).compute_ends(thread_of(e.a), now);
    case EventKind::kPushLeaves:
      return node_at(e.a).push_leaves(thread_of(e.a), now);
    case EventKind::kPushArrives:
      return push_arrives(ShardId(e.a), e.b, e.c, now);
    case EventKind::kPartArrives:
      return;
    case EventKind::kPushTaken:
      return push_taken(ShardId(e.a), e.b, e.c, now);
    case EventKind::kReportArrives:
      return report_arrives(e.a, e.c, now);
    case EventKind::kReportTaken:
      return reported(e.a, e.c, now);
    case EventKind::kArrivalSaid:
      events_.at(servers_[0].loop().take(plan_.costs.message, now),
                 {EventKind::kArrivalTaken, e.a, e.b, e.c});
      return;
    case EventKind::kArrivalTaken:
      return gradient_arrived(ShardId(e.a), e.b, e.c, now);
    case EventKind::kDecisionArrives:
      return servers_[e.a].decision_arrives(e.b, gradients_at_shards(e.b), now);
    case EventKind::kDecisionApplied:
      return applied(ShardId(e.a), e.b, now);
    case EventKind::kPullArrives:
      return servers_[e.a].pull_arrives(e.b, now);
    case EventKind::kPullTaken:
      return take_pull(ShardId(e.a), e.b, now);
    case EventKind::kReplyLeaves:
      return servers_[e.a].reply_leaves(e.b, now);
    case EventKind::kAnswerArrives:
      return answer_arrives(ShardId(e.a), e.b, now);
    case EventKind::kUnchanged:
      return nodes_[pulls_[e.b].incarnation].unchanged(e.b, ShardId(e.a), now);
    case EventKind::kReduced:
      return node_at(e.a).reduced(thread_of(e.a), now);
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
      if (!engine_.finished()) step(sync::StopRequested{"max_seconds"}, now);
      return;
  }
}

// A push that had not left whole when its node crashed comes to nothing.
void World::push_arrives(ShardId shard, std::uint32_t worker, std::uint32_t stamp, Ticks now) {
  if (node_at(worker).has_left(thread_of(worker), stamp))
    servers_[shard.value].push_arrives(worker, stamp, now);
}

void World::report_arrives(std::uint32_t worker, std::uint32_t stamp, Ticks now) {
  if (node_at(worker).has_left(thread_of(worker), stamp)) servers_[0].report_arrives(worker, stamp, now);
}

void World::push_taken(ShardId shard, std::uint32_t worker, std::uint32_t stamp, Ticks now) {
  const Node::Sent& sent = node_at(worker).sent(thread_of(worker), stamp);
  if (training_ != nullptr && is_live(worker)) {
    std::string fault = training_->push_taken(shard, plan_.cluster.rank_of(worker_of(worker)), sent.clock);
    if (!fault.empty()) faults_[{shard, worker, stamp}] = std::move(fault);
  }
  const std::optional<std::uint32_t> pull_behind =
      sent.pull_behind && pulls_[*sent.pull_behind].ticket == sent.pull_ticket ? sent.pull_behind
                                                                               : std::nullopt;
  if (shard == kAuthority) {
    gradient_arrived(shard, worker, stamp, now);
    reported(worker, stamp, now);
  } else {
    network_.message({EventKind::kArrivalSaid, shard.value, worker, stamp}, now);
  }
  // On one connection the pull that was sent behind the push is taken behind it.
  if (const auto pull = pull_behind; pull && plan_.slice_of(shard, pulls_[*pull].fragment)) {
    servers_[shard.value].pull_arrives(*pull, now);
  }
}

// When its node has come back nobody waits for what it asked for before.
void World::take_pull(ShardId shard, std::uint32_t pull, Ticks now) {
  const Pull& asked = pulls_[pull];
  if (there_[asked.node.value] == asked.incarnation) servers_[shard.value].take_pull(pull, now);
}

void World::answer_arrives(ShardId shard, std::uint32_t pull, Ticks now) {
  nodes_[pulls_[pull].incarnation].answer_arrives(pull, shard, now);
  servers_[shard.value].reply_has_left(now);
}

void World::crash(NodeId node, Ticks now) {
  const std::uint32_t incarnation = there_[node.value];
  if (engine_.finished() || nodes_[incarnation].crashed()) return;
  nodes_[incarnation].crash(now);
  events_.at(now + plan_.config.cluster.lease, {EventKind::kLost, incarnation, 0});
}

void World::lose(std::uint32_t incarnation, const std::string& why, Ticks now) {
  if (engine_.finished() || presence_[incarnation] != Presence::kThere) return;
  presence_[incarnation] = Presence::kLost;
  const Node& node = nodes_[incarnation];
  if (!node.reported()) {  // else it has left
    ++summary_.lost_nodes;
    summary_.lost.push_back("node " + to_string(node.id()) + ": " + why + ", crashed at " +
                            in_seconds(node.crashed_at() - first_grant_));
  }
  for (Server& server : servers_) server.lose(node.id());
  step(sync::Lost{node.id()}, now);
}

// At the start, later, or back again. When training ends nobody is let in any more. That the incarnation
// before is lost at once, though its lease is not over, is the simulator's choice: at the daemons another one
// waits until its loss is known, and is refused where it is alive (docs/PROTOCOL.md).
void World::join(std::uint32_t incarnation, Ticks now) {
  if (engine_.finished() || engine_.stopping()) return;
  const NodeId node = nodes_[incarnation].id();
  const std::uint32_t before = std::exchange(there_[node.value], incarnation);
  const std::string when = "node " + to_string(node) + " at version " + to_string(engine_.version());
  if (before != incarnation) {
    lose(before, "came back", now);
    if (engine_.finished()) return;
    ++summary_.returned_nodes;
    summary_.returned.push_back(when);
    for (Server& server : servers_) server.join(node);
    if (training_ != nullptr) training_->comes_back(node);
  }
  if (before == incarnation && engine_.started()) {
    ++summary_.late_nodes;
    summary_.late.push_back(when);
  }
  presence_[incarnation] = Presence::kThere;
  for (std::uint32_t t = 0; t < plan_.cluster.threads_per_node; ++t) {
    step(sync::Joined{WorkerId(node, t)}, now);
  }
}

bool World::is_live(std::uint32_t worker) const {
  return presence_[incarnation_of(worker)] == Presence::kThere && engine_.is_live(worker_of(worker));
}

void World::gradient_arrived(ShardId shard, std::uint32_t worker, std::uint32_t stamp, Ticks now) {
  if (!is_live(worker)) return;  // its node was lost meanwhile
  std::string fault;
  if (const auto found = faults_.extract({shard, worker, stamp}); !found.empty())
    fault = std::move(found.mapped());
  const Node::Sent& sent = node_at(worker).sent(thread_of(worker), stamp);
  step(sync::GradientArrived{shard, worker_of(worker), sent.clock, sent.metric.samples, std::move(fault)},
       now);
}

void World::reported(std::uint32_t worker, std::uint32_t stamp, Ticks now) {
  if (!is_live(worker)) return;
  // Its gradient is in the sum that every node has, and went to no shard.
  if (reductions_ != nullptr) gradient_arrived(kAuthority, worker, stamp, now);
  const Node::Sent& sent = node_at(worker).sent(thread_of(worker), stamp);
  if (sent.fault.empty()) trained_ += sent.metric;
  step(sync::StepReported{worker_of(worker), sent.clock, sent.metric, sent.computed_version,
                          sent.computed_revision, !sent.fault.empty(), sent.fault, sent.own_updates},
       now);
}

void World::note_progress(Ticks now) {
  const double seconds = to_seconds(now - first_grant_);
  if (engine_.finished() || !progress_.due(seconds)) return;
  Traffic moved;
  for (const Server& server : servers_) moved += {server.bytes_pushed(), server.bytes_pulled(), 0};
  if (reductions_ != nullptr) moved.reduced = reductions_->bytes_sent();
  const Clock slowest = engine_.min_clock();
  progress_.note(seconds, moved, [&](WorkerId worker) -> std::optional<std::int64_t> {
    if (!engine_.is_live(worker)) return std::nullopt;
    return (engine_.clock_of(worker) - slowest).value;
  });
}

void World::step(const sync::Event& event, Ticks now) {
  actions_.clear();
  if (watcher_ != nullptr) watcher_->before(event, now);
  engine_.step(event, now, actions_);
  if (trace_) trace_->stepped(event, actions_, engine_, now);
  if (watcher_ != nullptr) watcher_->after(actions_);
  for (sync::Action& action : actions_) {
    std::visit([&](auto& a) { carry_out(a, now); }, action);
  }
  for (const std::uint32_t decision : std::exchange(own_decisions_, {})) {
    servers_[0].decision_arrives(decision, gradients_at_shards(decision), now);
  }
}

void World::carry_out(const sync::Started&, Ticks now) {
  first_grant_ = now;
  progress_.note(0.0, {}, [](WorkerId) { return 0; });
  const std::vector<PolicyStage>& stages = plan_.engine.policy.stages;
  if (stages.empty()) return;
  summary_.switches.push_back({name_of(stages.front().policy), Version(0), 0.0, engine_.threshold()});
}

void World::carry_out(sync::Apply& action, Ticks now) {
  staleness_.add(action);
  revision_ = action.revision_after;
  note_progress(now);
  Decision decided{std::move(action), static_cast<std::uint32_t>(servers_.size())};
  if (training_ != nullptr) tell(decided, now);
  const std::uint32_t decision = keep(std::move(decided));
  own_decisions_.push_back(decision);
  for (std::uint32_t k = 1; k < servers_.size(); ++k) {
    network_.message({EventKind::kDecisionArrives, k, decision},
                     servers_[0].loop().take(plan_.costs.message, now));
  }
}

std::size_t World::gradients_at_shards(std::uint32_t decision) const {
  return reductions_ == nullptr ? decisions_[decision].apply.contributors.size() : 0;
}

std::uint32_t World::keep(Decision decision) {
  if (free_decisions_.empty()) {
    free_decisions_.push_back(static_cast<std::uint32_t>(decisions_.size()));
    decisions_.emplace_back();
  }
  const std::uint32_t place = free_decisions_.back();
  free_decisions_.pop_back();
  decisions_[place] = std::move(decision);
  return place;
}

void World::applied(ShardId shard, std::uint32_t decision, Ticks now) {
  Decision& made = decisions_[decision];
  if (training_ != nullptr) training_->apply(shard, made.told);
  servers_[shard.value].apply(made.apply, now);
  if (--made.shards_open > 0) return;
  free_decisions_.push_back(decision);
  if (made.row) evaluate(made.apply.version_after, *made.row, now);
}

// When a message of the authority to a node has been parsed there.
Ticks World::say(std::chrono::nanoseconds to_be_parsed, Ticks now) {
  return servers_[0].loop().take(plan_.costs.message, now) + network_.latency() + to_be_parsed;
}

void World::carry_out(const sync::Grant& action, Ticks now) {
  if (batch_sizes_) batch_sizes_->add(action);
  const std::uint32_t worker = number_of(action.worker);
  node_at(worker).expect(action);
  events_.at(say(plan_.costs.message, now), {EventKind::kGrantArrives, worker, 0});
}

void World::carry_out(const sync::FinishWorker& action, Ticks now) {
  const std::uint32_t worker = number_of(action.worker);
  node_at(worker).expect(action);
  events_.at(say(plan_.costs.message, now), {EventKind::kFinishArrives, worker, 0});
}

void World::carry_out(const sync::WindowClosed& action, Ticks now) {
  CurveRow row{to_seconds(now - first_grant_), action.version, action.threshold};
  row.iterations = plan_.config.train.iterations_in(revision_.value);
  if (plan_.metric || training_ != nullptr) {  // else nobody knows how well training goes
    row.lpr = action.lpr;
    row.train_loss = action.loss_mean;
    row.train_accuracy = action.accuracy;
  }
  curve_.push_back(row);
}

void World::carry_out(const sync::PolicySwitched& action, Ticks now) {
  summary_.switches.push_back(
      {name_of(action.to), action.version, to_seconds(now - first_grant_), action.threshold_to});
}

void World::carry_out(const sync::AllFinished& action, Ticks now) {
  summary_.wall_seconds = to_seconds(now - first_grant_);
  if (action.reason == sync::EndReason::kNobodyLeft) {
    summary_.status = "failed";
    summary_.reason = "every node was lost before its share was done";
  }
}

// In timing mode nothing of it has counted anywhere.
void World::carry_out(const sync::Discard& action, Ticks) {
  if (training_ != nullptr) training_->discard(action);
}

void World::carry_out(const sync::RunFailed& action, Ticks) {
  summary_.status = "failed";
  summary_.reason = action.status.message();
}

void World::carry_out(const sync::Reject& action, Ticks) {
  PACELINE_ASSERT(false, "the core refuses what the simulator says: " + action.status.message());
}

Result<Outcome> World::outcome() {
  Outcome out;
  if (training_ != nullptr) {
    finish_model(out);
    PACELINE_RETURN_IF_ERROR(training_->status());
  }
  summary_.policy = name_of(plan_.config.sync.policy);
  summary_.nodes = plan_.cluster.nodes;
  summary_.threads_per_node = plan_.cluster.threads_per_node;
  set_iterations(summary_, engine_, plan_.config.train.local_steps);
  summary_.final_version = engine_.version();
  summary_.final_threshold = engine_.threshold();
  summary_.max_grant_gap = engine_.max_grant_gap();
  summary_.max_clock_gap = engine_.max_clock_gap();
  for (const Server& server : servers_) {
    summary_.bytes_pushed += server.bytes_pushed();
    summary_.bytes_pulled += server.bytes_pulled();
    summary_.pulls += server.pulls_taken();
  }
  if (reductions_ != nullptr) {
    summary_.exchange = name_of(ExchangeKind::kAllreduce);
    summary_.bytes_reduced = reductions_->bytes_sent();
  }
  if (pipelines_ != nullptr) summary_.pipeline = pipelines_->summary();
  PhaseTotals merged;
  std::int64_t steps = 0;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (presence_[i] == Presence::kAbsent || (node.crashed() && !node.reported()))
      continue;  // nor will it ever
    summary_.parameter_reads += node.parameter_reads();
    summary_.server_reads += node.server_reads();
    summary_.overruns += node.overruns();
    steps += node.steps();
    node.add_phases(out.phases);
  }
  join_incarnations(out.phases);
  for (const WorkerPhases& worker : out.phases) merge(merged, worker.totals);
  set_phases(summary_, merged);
  if (summary_.status == "ok" && too_many_overruns(summary_.overruns, steps)) {
    summary_.status = "invalid";
    summary_.reason =
        std::to_string(summary_.overruns) + " of " + std::to_string(steps) +
        " emulated steps began to compute when they were to be done; raise emulate.base_step, or "
        "lower simulate.network.latency and simulate.costs";
  }
  if (trace_) add_trace(out);
  out.staleness = staleness_.workers();
  out.progress = progress_.rows();
  set_staleness(summary_, out.staleness);
  if (batch_sizes_) summary_.batch_sizes = batch_sizes_->sizes();
  out.summary = std::move(summary_);
  out.curve = std::move(curve_);
  out.events = events_taken_;
  return out;
}

}  // namespace paceline::simulate
