#include "server/authority/instructions.h"

#include <utility>

#include "server/store/decision.h"

namespace paceline::server {

Instructions::Instructions(const RunConfig& config, const RunRecord& record, RunOutbox& outbox)
    : config_(config), record_(record), outbox_(outbox), given_(config.cluster.cluster().workers()) {}

void Instructions::give(const sync::Grant& grant) {
  keep(grant.worker, grant);
  send(grant);
}

void Instructions::send(const sync::Grant& grant) {
  wire::Grant message = grant_of(config_, grant);
  message.loss_scale = record_.loss_scale(grant.worker);
  outbox_.to_node(grant.worker.node, std::move(message));
}

void Instructions::give(const sync::HeldNotice& held) {
  outbox_.to_node(held.worker.node, wire::HeldNotice{held.worker, held.clock, held.lead, held.threshold,
                                                     held.waits_for, held.held});
}

void Instructions::give(const sync::FinishWorker& finish, bool is_here) {
  keep(finish.worker, finish);
  if (!is_here) return;
  outbox_.to_node(finish.worker.node, wire::FinishWorker{finish.worker, finish.reason, finish.held});
}

void Instructions::keep(WorkerId worker, Instruction instruction) {
  Given& given = of(worker);
  given.before = std::exchange(given.last, std::move(instruction));
}

void Instructions::repeat(NodeId node, const sync::Engine& engine) {
  for (std::uint32_t thread = 0; thread < config_.cluster.threads_per_node; ++thread) {
    repeat(WorkerId(node, thread), engine);
  }
}

void Instructions::answer_again(WorkerId worker, const sync::Engine& engine, Ticks now) {
  if (const auto held = engine.held_now(worker, now)) return give(*held);
  repeat(worker, engine);
}

// A grant stands as it was given, whatever the threshold is now; what exists may be newer.
void Instructions::repeat(WorkerId worker, const sync::Engine& engine) {
  const Given& given = of(worker);
  if (const auto* finished = std::get_if<sync::FinishWorker>(&given.last)) {
    return outbox_.to_node(worker.node, wire::FinishWorker{worker, finished->reason, finished->held});
  }
  for (const Instruction* each : {&given.before, &given.last}) {
    const auto* const granted = std::get_if<sync::Grant>(each);
    if (granted == nullptr || !engine.awaits_report(worker, granted->clock)) continue;
    sync::Grant again = *granted;
    again.version = engine.version();
    again.revision = engine.revision();
    send(again);
  }
}

}  // namespace paceline::server
