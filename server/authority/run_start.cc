#include "server/authority/run_start.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "server/authority/results.h"

namespace paceline::server {

using NodeState = RunMembers::NodeState;

// How long a shard that is alive may take, in leases, to read its part of a checkpoint, which is of any size.
constexpr int kLeasesToRead = 60;

std::string why_needed(const RunConfig& config, NodeId node, bool has_stepped) {
  if (config.train.batch_norm_group > 1)
    return "train.batch_norm_group: the others go by its statistics, too";
  const std::uint32_t stages = config.pipeline.stages;
  if (stages == 1) {
    if (!has_stepped) return "exchange.kind: allreduce needs every node until its first step";
    return config.exchange.on_loss == OnLoss::kStop ? "exchange.on_loss: stop"
                                                    : "exchange.kind: allreduce needs every node";
  }
  return "stage " + std::to_string(node.value % stages) + " of group " + std::to_string(node.value / stages) +
         ", whose nodes cannot go on without it";
}

RunStart::RunStart(const RunConfig& config, Of which, RunCore& core, RunMembers& members, RunOutcome& state,
                   RunRecord& record, RunOutbox& outbox, Background& background, const Log& log, Ticks now,
                   Evict evict)
    : config_(config),
      which_(which),
      core_(core),
      members_(members),
      state_(state),
      record_(record),
      outbox_(outbox),
      background_(background),
      log_(log),
      evict_(std::move(evict)),
      since_(now) {}

void RunStart::begin_if_gathered(Ticks now) {
  if (!state_.is(RunStage::kGathering) || !members_.shards_are_ready()) return;
  if (resumes()) {
    if (members_.all_awaited_came() && may_go_on()) go_on(now);
    return;
  }
  if (members_.enough_have_joined()) begin(now);
}

void RunStart::ready(ShardId shard, Ticks now) {
  const bool were_ready = members_.shards_are_ready();
  members_.shard(shard).ready = true;
  if (resumes() && !were_ready && members_.shards_are_ready()) since_ = now;
}

void RunStart::begin(Ticks now) {
  state_.enter(RunStage::kTraining);
  const Cluster cluster = config_.cluster.cluster();
  for (std::uint32_t r = 0; r < cluster.workers(); ++r) {
    const WorkerId worker = cluster.worker_at(Rank(r));
    if (members_[worker.node] != NodeState::kJoined) continue;
    members_.process(worker.node).takes_part = true;
    core_.step_own(sync::Joined{worker}, now);
  }
}

// Those who talk to each other need every node.
bool RunStart::may_go_on() const {
  const bool enough =
      nodes_are_connected(config_) ? members_.all_have_joined() : members_.lowest().has_value();
  return enough && members_.shards_are_ready();
}

void RunStart::go_on(Ticks now) {
  state_.enter(RunStage::kTraining);
  // Not before: an attempt that nobody joins would cost the model of a run that was stopped.
  background_.run([run = config_.run.out] { return forget_results(run); },
                  [this](const Status& removed, Ticks) {
                    if (!removed.is_ok()) log_.warn(removed.message());
                  });
  for (const NodeId node : members_.in(NodeState::kAbsent)) {
    exclude(node, "it has not joined the resumed run in time");
  }
  // The core begins with the last of those that it waits for, so the others are to be there by then.
  std::vector<NodeId> joined;
  for (const bool awaited : {false, true}) {
    for (const NodeId node : members_.in(NodeState::kJoined)) {
      if (members_.is_awaited(node) == awaited) joined.push_back(node);
    }
  }
  for (std::uint32_t i = 0; i < config_.cluster.nodes; ++i) {
    RunMembers::Process& process = members_.process(NodeId(i));
    process.takes_part = members_.is_awaited(NodeId(i));
    process.took_part = !config_.cluster.nodes_at_start;
  }
  for (const NodeId node : joined) {
    RunMembers::Process& process = members_.process(node);
    process.takes_part = true;
    // It was lost before the save, or was not there yet; where all had been at the start it may have finished early.
    if (record_.churn().is_away(node)) {
      record_.churn().returned(node, core_.engine().version());
    } else if (!process.took_part && !members_.is_awaited(node)) {
      record_.churn().came_late(node, core_.engine().version());
    }
    for (std::uint32_t thread = 0; thread < config_.cluster.threads_per_node; ++thread) {
      const Status status = core_.step(sync::Joined{WorkerId(node, thread)}, now);
      if (!status.is_ok()) evict_(node, status, now);
    }
  }
  for (std::uint32_t i = 0; i < config_.cluster.nodes; ++i) {
    const bool awaits = members_.is_awaited(NodeId(i)) || members_.nobody_was_there();
    if (members_[NodeId(i)] == NodeState::kJoined || !awaits) continue;
    core_.step_own(sync::Lost{NodeId(i)}, now);
  }
}

Status RunStart::lose(NodeId node, const std::string& why, Ticks now) {
  if (resumes()) return lost_before_resume(node, why, now);
  const bool had_joined = members_[node] != NodeState::kAbsent;
  const std::string what = "node " + to_string(node) +
                           (had_joined ? " was lost before training began: " + why
                                       : " has not joined: " + why + members_.refusals());
  if (!may_lose(node)) return unavailable(what);
  members_[node] = NodeState::kGone;
  log_.warn(what);
  outbox_.to_shards(wire::NodeLost{node, why, members_.process(node).incarnation});
  return Status::ok();
}

Status RunStart::never_comes(NodeId node, const std::string& why, Ticks now) {
  const std::string what = "node " + to_string(node) + " has not joined: " + why + members_.refusals();
  const std::optional<std::uint32_t> least = config_.cluster.nodes_at_start;
  if (resumes() && !least && members_.is_awaited(node)) return unavailable(what);
  PACELINE_RETURN_IF_ERROR(lose(node, why, now));
  const std::size_t can_come = members_.joined() + members_.in(NodeState::kAbsent).size();
  if (resumes() || !least || can_come >= *least) return Status::ok();
  return unavailable(what + "; at least " + std::to_string(*least) + " nodes are to begin, and " +
                     std::to_string(can_come) + " can");
}

Status RunStart::lost_before_resume(NodeId node, const std::string& why, Ticks now) {
  exclude(node, why);
  if (nodes_are_connected(config_)) {
    return unavailable("node " + to_string(node) + " lost before training went on: " + why + " (" +
                       why_needed(config_, node, false) + ")");
  }
  if (members_.all_awaited_came() && !members_.lowest()) {
    return unavailable("every node was lost before training went on; the last was node " + to_string(node) +
                       ": " + why);
  }
  begin_if_gathered(now);
  return Status::ok();
}

// Nobody waits for it.
void RunStart::exclude(NodeId node, const std::string& why) {
  const bool had_joined = std::exchange(members_[node], NodeState::kGone) != NodeState::kAbsent;
  if (had_joined || members_.is_awaited(node)) {
    record_.churn().lost(node, why);
    log_.warn("node " + to_string(node) + " lost: " + why);
  }
  outbox_.to_shards(wire::NodeLost{node, why, members_.process(node).incarnation});
}

// Of a new run node 0's initial values may be half here.
bool RunStart::may_lose(NodeId node) const {
  if (!resumes()) return config_.cluster.nodes_at_start && node != NodeId(0);
  for (std::uint32_t i = 0; i < config_.cluster.nodes; ++i) {
    const NodeId other(i);
    const bool may_come = members_.is_awaited(other) || members_.nobody_was_there();
    const bool comes = members_[other] == NodeState::kAbsent && may_come;
    if (other != node && (comes || members_[other] == NodeState::kJoined)) return true;
  }
  return false;
}

// Files may be large: that a shard is alive its lease tells, and nodes need not come before it is ready.
std::chrono::nanoseconds RunStart::timeout() const {
  const std::chrono::nanoseconds to_read = kLeasesToRead * config_.cluster.lease;
  return config_.cluster.start_timeout +
         (resumes() && !members_.shards_are_ready() ? to_read : to_read.zero());
}

// However long that takes: node 0's lease is watched.
bool RunStart::warms_up() const {
  return config_.train.warm_start_steps > 0 && !resumes() && members_.enough_have_joined() &&
         members_[NodeId(0)] == NodeState::kJoined && members_.shards_have_joined();
}

Status RunStart::check(Ticks now) {
  const auto allowed = timeout();
  if (!state_.is(RunStage::kGathering) || now - since_ <= allowed || warms_up()) return Status::ok();
  if (resumes() && may_go_on()) {
    go_on(now);
    return Status::ok();
  }
  const auto seconds = std::chrono::duration_cast<std::chrono::milliseconds>(allowed).count() / 1000.0;
  std::string text = std::to_string(seconds);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return deadline_exceeded(members_.missing() + " within " + text + " s" + members_.refusals());
}

}  // namespace paceline::server
