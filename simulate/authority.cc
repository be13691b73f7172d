#include "simulate/authority.h"

#include <utility>
#include <variant>

#include "common/assert.h"
#include "common/trace/bound.h"

namespace paceline::simulate {

Authority::Authority(const Surroundings& world, Nodes& nodes, std::vector<Server>& servers, RunRecord& record,
                     Watcher* watcher)
    : world_(world),
      nodes_(nodes),
      servers_(servers),
      record_(record),
      watcher_(watcher),
      engine_(world.plan.engine) {
  if (world.training != nullptr) model_.emplace(world.plan, *world.training, engine_, record);
  const RunSection& run = world.plan.config.run;
  if (run.trace) log_.emplace(trace::decision_events(run.trace_events));
}

bool Authority::is_live(std::uint32_t worker) const {
  return nodes_.takes_part(nodes_.incarnation_of(worker)) && engine_.is_live(nodes_.id_of(worker));
}

void Authority::note_fault(ShardId shard, std::uint32_t worker, std::uint32_t stamp, std::string fault) {
  faults_[{shard, worker, stamp}] = std::move(fault);
}

void Authority::gradient_arrived(ShardId shard, std::uint32_t worker, std::uint32_t stamp, Ticks now) {
  if (!is_live(worker)) return;
  std::string fault;
  if (const auto found = faults_.extract({shard, worker, stamp}); !found.empty())
    fault = std::move(found.mapped());
  const SentStep& sent = nodes_.worker(worker).sent().at(stamp);
  step(sync::GradientArrived{shard, nodes_.id_of(worker), sent.clock, sent.metric.samples, std::move(fault)},
       now);
}

void Authority::reported(std::uint32_t worker, std::uint32_t stamp, Ticks now) {
  if (!is_live(worker)) return;
  // Its gradient is in the sum that every node has, and went to no shard.
  if (world_.reductions != nullptr) gradient_arrived(kAuthority, worker, stamp, now);
  const SentStep& sent = nodes_.worker(worker).sent().at(stamp);
  if (model_ && sent.fault.empty()) model_->trained(sent.metric);
  step(sync::StepReported{nodes_.id_of(worker), sent.clock, sent.metric, sent.computed_version,
                          sent.computed_revision, !sent.fault.empty(), sent.fault, sent.own_updates},
       now);
}

void Authority::step(const sync::Event& event, Ticks now) {
  actions_.clear();
  if (watcher_ != nullptr) watcher_->before(event, now);
  engine_.step(event, now, actions_);
  if (log_) log_->stepped(event, actions_, engine_, now);
  if (watcher_ != nullptr) watcher_->after(actions_);
  for (sync::Action& action : actions_) {
    std::visit([&](auto& a) { carry_out(a, now); }, action);
  }
  for (const std::uint32_t decision : std::exchange(own_decisions_, {})) {
    decision_arrives(kAuthority, decision, now);
  }
}

void Authority::carry_out(const sync::Started&, Ticks now) { record_.begin(engine_.threshold(), now); }

void Authority::carry_out(sync::Apply& action, Ticks now) {
  record_.add(action);
  note_progress(now);
  Decision decided{std::move(action), static_cast<std::uint32_t>(servers_.size())};
  if (model_) {
    AuthorityModel::Announced announced = model_->announce(decided.apply, now);
    decided.announced = std::move(announced.decision);
    decided.row = announced.row;
  }
  const std::uint32_t decision = decisions_.begin(std::move(decided));
  own_decisions_.push_back(decision);
  for (std::uint32_t k = 1; k < servers_.size(); ++k) {
    world_.network.message({EventKind::kDecisionArrives, k, decision},
                           servers_[0].loop().take(world_.plan.costs.message, now));
  }
}

// An all-reduce's gradients went to no shard.
void Authority::decision_arrives(ShardId shard, std::uint32_t decision, Ticks now) {
  const std::size_t gradients =
      world_.reductions == nullptr ? decisions_[decision].apply.contributors.size() : 0;
  servers_[shard.value].decision_arrives(decision, gradients, now);
}

void Authority::applied(ShardId shard, std::uint32_t decision, Ticks now) {
  Decision& made = decisions_[decision];
  if (world_.training != nullptr) world_.training->apply(shard, made.announced);
  servers_[shard.value].apply(made.apply, now);
  if (--made.shards_open > 0) return;
  decisions_.end(decision);
  if (made.row && model_->evaluate(made.apply.version_after, *made.row) && !engine_.finished()) {
    step(sync::StopRequested{"target accuracy reached"}, now);
  }
}

void Authority::note_progress(Ticks now) {
  if (engine_.finished() || !record_.progress_is_due(now)) return;
  Traffic moved;
  for (const Server& server : servers_) moved += {server.bytes_pushed(), server.bytes_pulled(), 0};
  if (world_.reductions != nullptr) moved.reduced = world_.reductions->bytes_sent();
  const Clock slowest = engine_.min_clock();
  record_.note_progress(now, moved, [&](WorkerId worker) -> std::optional<std::int64_t> {
    if (!engine_.is_live(worker)) return std::nullopt;
    return (engine_.clock_of(worker) - slowest).value;
  });
}

// Its worker takes it once it has been parsed at the node.
template <typename Instruction>
void Authority::send(const Instruction& instruction, EventKind arrival, Ticks now) {
  const std::uint32_t worker = nodes_.number_of(instruction.worker);
  nodes_.worker(worker).instructions().expect(instruction);
  const auto message = world_.plan.costs.message;
  const Ticks there = servers_[0].loop().take(message, now) + world_.network.latency() + message;
  world_.events.at(there, {arrival, worker, 0});
}

void Authority::carry_out(const sync::Grant& action, Ticks now) {
  record_.add(action);
  send(action, EventKind::kGrantArrives, now);
}

void Authority::carry_out(const sync::FinishWorker& action, Ticks now) {
  send(action, EventKind::kFinishArrives, now);
}

void Authority::carry_out(const sync::WindowClosed& action, Ticks now) { record_.add(action, now); }

void Authority::carry_out(const sync::PolicySwitched& action, Ticks now) { record_.add(action, now); }

void Authority::carry_out(const sync::AllFinished& action, Ticks now) { record_.add(action, now); }

// In timing mode nothing of it has counted anywhere.
void Authority::carry_out(const sync::Discard& action, Ticks) {
  if (world_.training != nullptr) world_.training->discard(action);
}

void Authority::carry_out(const sync::RunFailed& action, Ticks) { record_.fail(action.status.message()); }

void Authority::carry_out(const sync::Reject& action, Ticks) {
  PACELINE_ASSERT(false, "the core refuses what the simulator says: " + action.status.message());
}

std::optional<ModelFile> Authority::finish_model() {
  if (!model_) return std::nullopt;
  return model_->finish();
}

}  // namespace paceline::simulate
