#include "server/authority/late_nodes.h"

#include <cstdint>

#include "common/sync/engine_config.h"

namespace paceline::server {

using NodeState = RunMembers::NodeState;

LateNodes::LateNodes(const RunConfig& config, RunCore& core, RunMembers& members, RunRecord& record,
                     Instructions& instructions, RunOutbox& outbox, const Log& log)
    : config_(config),
      core_(core),
      members_(members),
      record_(record),
      instructions_(instructions),
      outbox_(outbox),
      log_(log),
      let_in_at_(config.cluster.nodes) {}

Status LateNodes::may_come(NodeId node) const {
  const std::string who = "node " + to_string(node);
  if (record_.has_report(node)) return failed_precondition(who + ": it has done its share");
  if (!sync::workers_come_and_go(core_.engine().config())) {
    return failed_precondition(
        who +
        ": training has begun, and with sync.backup_workers, train.batch_balance or local_balance "
        "nobody comes later");
  }
  const bool compensates = config_.train.optimizer.delay_compensation.kind != CompensationKind::kNone;
  if (compensates && members_.process(node).takes_part) {
    return failed_precondition(who +
                               ": servers still have what its process before computed with, and with "
                               "train.optimizer.delay_compensation no node comes back");
  }
  return Status::ok();
}

void LateNodes::let_in(NodeId node, Ticks now) {
  members_[node] = NodeState::kJoining;
  let_in_at_[node.value] = now;
  log_.info("node " + to_string(node) + " is let in; it takes part when all servers have welcomed it");
}

Status LateNodes::begin(NodeId node, Ticks now) {
  RunMembers::Process& process = members_.process(node);
  members_[node] = NodeState::kJoined;
  process.has_come = true;
  const Version version = core_.engine().version();
  const bool returns = process.takes_part || process.took_part || record_.churn().is_away(node);
  for (std::uint32_t thread = 0; thread < config_.cluster.threads_per_node; ++thread) {
    const WorkerId worker(node, thread);
    instructions_.forget(worker);
    PACELINE_RETURN_IF_ERROR(core_.step(sync::Joined{worker}, now));
    members_.begins(worker, core_.engine().clock_of(worker));
  }
  process.takes_part = true;
  returns ? record_.churn().returned(node, version) : record_.churn().came_late(node, version);
  log_.info("node " + to_string(node) + (returns ? " is back" : " has come") +
            " and takes part, at version " + to_string(version));
  return Status::ok();
}

void LateNodes::lost(NodeId node, const std::string& why) {
  members_[node] = NodeState::kGone;
  log_.warn("node " + to_string(node) + " lost before it took part: " + why);
  outbox_.to_shards(wire::NodeLost{node, why, members_.process(node).incarnation});
}

std::vector<NodeId> LateNodes::overdue(Ticks now) const {
  std::vector<NodeId> late;
  for (const NodeId node : members_.in(NodeState::kJoining)) {
    if (now - let_in_at_[node.value] > config_.cluster.start_timeout) late.push_back(node);
  }
  return late;
}

Status LateNodes::too_late() const {
  return deadline_exceeded("it has not reported within cluster.start_timeout that all servers welcomed it");
}

}  // namespace paceline::server
