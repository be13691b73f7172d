#include "server/authority/run_waits.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace paceline::server {
namespace {

std::string waiters(const std::vector<WorkerId>& held) {
  if (held.size() == 1) return "worker " + to_string(held.front()) + " waits for ";
  return std::to_string(held.size()) + " workers wait for ";
}

// Workers that have come equally far with what is waited for: what their reports say, and which shards lack
// their gradients.
struct Laggards {
  std::vector<std::string> names;
  std::chrono::nanoseconds usual{0};  // of the slowest whose usual time is known
};

std::string shards_lacking(std::uint64_t lacking, std::uint32_t shards, const LastSeen& last_seen) {
  std::vector<std::string> names;
  for (std::uint32_t k = 0; k < shards; ++k) {
    if ((lacking >> k & 1) != 0) names.push_back(with_last_seen_after(Peer::of(ShardId(k)), last_seen));
  }
  return enumerated(names);
}

// Nobody waits for it.
void late_join_waits(const RunWaiting& run, const LastSeen& last_seen, std::vector<Wait>& found) {
  for (const NodeId coming : run.members.in(RunMembers::NodeState::kJoining)) {
    const Peer node = Peer::of(coming);
    found.push_back({"the wait of " + to_string(node) + " for all servers' welcome",
                     with_last_seen_after(node, last_seen) +
                         " is let in, and has not reported that all servers welcomed it"});
  }
}

// Who has said where it is reached hears of the others once all have.
void formation_waits(const RunWaiting& run, const LastSeen& last_seen, std::vector<Wait>& found) {
  std::vector<std::string> nodes;
  for (const NodeId node : run.formations.awaited()) {
    nodes.push_back(with_last_seen_after(Peer::of(node), last_seen));
  }
  if (nodes.empty()) return;
  found.push_back({"the wait for the nodes' formation",
                   "the nodes' formation waits for " + enumerated(nodes) + " to say where the others come"});
}

// Who is held, or has made the step of an all-reduce, waits for the min clock to move, that is, for those who stand
// there and are in an iteration.
// Under backup one may be late, in an iteration whose clock has closed without it: it is waited for only
// where nobody else is. Who is asked to stop waits for everybody. Where nobody is held, the version still
// waits for the slowest.
void training_waits(const RunWaiting& run, const LastSeen& last_seen, WaitsFor which,
                    std::vector<Wait>& found) {
  const Cluster cluster = run.config.cluster.cluster();
  const Clock open = run.engine.min_clock();
  const bool waits_for_all = run.engine.stopping() || run.engine.quiescing();
  std::vector<WorkerId> held;
  std::map<std::uint64_t, Laggards> by_lacking;  // kNotReported, or which shards lack the gradient
  constexpr std::uint64_t kNotReported = 0;
  // A lost node of an all-reduce is in the core until the others' next step (reduced_steps.h).
  const auto is_here = [&](WorkerId worker) {
    return run.members[worker.node] == RunMembers::NodeState::kJoined;
  };
  enum class Of { kTheirClock, kAnOlderOne };
  const auto gather = [&](Of clock) {
    for (std::uint32_t r = 0; r < cluster.workers(); ++r) {
      const WorkerId worker = cluster.worker_at(Rank(r));
      if (!is_here(worker)) continue;
      const auto iteration = run.engine.iteration_of(worker);
      if (!iteration || (run.engine.clock_of(worker) > open && !waits_for_all)) continue;
      if (run.steps.has_stepped(worker)) continue;
      const bool late = iteration->clock < run.engine.clock_of(worker);
      if (late != (clock == Of::kAnOlderOne)) continue;
      Laggards& laggards = by_lacking[iteration->reported ? iteration->lacking : kNotReported];
      laggards.usual = std::max(laggards.usual, run.speeds.usual(Rank(r)));
      // Where clocks differ (a stop; a late worker of backup) each has its own.
      laggards.names.push_back("worker " + to_string(worker) + " (" +
                               with_last_seen(Peer::of(worker.node), last_seen) + ", clock " +
                               to_string(iteration->clock) + ")");
    }
  };
  for (std::uint32_t r = 0; r < cluster.workers(); ++r) {
    const WorkerId worker = cluster.worker_at(Rank(r));
    if (!is_here(worker)) continue;
    if (run.engine.is_held(worker) || run.steps.has_stepped(worker)) held.push_back(worker);
  }
  if (which == WaitsFor::kOfSomebody && held.empty() && !waits_for_all) return;
  gather(Of::kTheirClock);
  if (by_lacking.empty() || waits_for_all) gather(Of::kAnOlderOne);
  const std::string what = run.engine.stopping()    ? "the stop"
                           : run.engine.quiescing() ? "the run to quiesce"
                                                    : "version " + std::to_string(open.value + 1);
  const std::string who = held.empty() ? what + " waits" : waiters(held) + what;
  for (const auto& [lacking, laggards] : by_lacking) {
    const std::string has = laggards.names.size() == 1 ? " has" : " have";
    std::string why = enumerated(laggards.names) + has + " not reported";
    std::string cause = "the wait for " + what + ", until all have reported";
    if (lacking != kNotReported) {
      const std::string shards = shards_lacking(lacking, run.config.cluster.shards, last_seen);
      const std::string its = laggards.names.size() == 1 ? "its gradient is" : "their gradients are";
      why = enumerated(laggards.names) + has + " reported, but " + its + " not whole on " + shards;
      const LastSeen nobody = [](Peer) { return std::nullopt; };
      cause = "the wait for " + what + ", for gradients on " +
              shards_lacking(lacking, run.config.cluster.shards, nobody);
    }
    found.push_back({std::move(cause), who + ": " + why, laggards.usual});
  }
}

void evaluation_waits(const RunWaiting& run, const LastSeen& last_seen, std::vector<Wait>& found) {
  const auto asked = run.evaluations.schedule().asked();
  if (!asked) return;
  const std::string what = "the evaluation of version " + to_string(asked->version) + " by ";
  const Peer node = Peer::of(asked->node);
  const std::string by = what + with_last_seen_after(node, last_seen);
  found.push_back(
      {"the wait for " + what + to_string(node),
       run.stage == RunStage::kEnding ? "the end waits for " + by : by + " has not come, nobody waits for it",
       run.evaluations.usual()});
}

void checkpoint_waits(const RunWaiting& run, const LastSeen& last_seen, std::vector<Wait>& found) {
  std::vector<std::string> shards;
  for (const ShardId shard : run.checkpoints.missing()) {
    shards.push_back(with_last_seen_after(Peer::of(shard), last_seen));
  }
  if (!run.checkpoints.under_way()) return;
  const bool held = run.stage == RunStage::kEnding && run.checkpoints.enabled();
  const std::string who = held ? "the end" : "the next checkpoint";
  if (shards.empty()) {
    found.push_back({"the wait for a checkpoint's manifest",
                     who + " waits for the manifest of a checkpoint to be written to " + run.config.run.out});
    return;
  }
  found.push_back({"the wait for a checkpoint's files",
                   who + " waits for the file of a checkpoint to be written by " + enumerated(shards)});
}

// The last ones of an all-reduce.
void parameter_waits(const RunWaiting& run, const LastSeen& last_seen, std::vector<Wait>& found) {
  const Version last = run.engine.version();
  if (!nodes_hold_parameters(run.config) || run.parameters.are_here(last)) return;
  std::vector<std::string> nodes;
  for (const NodeId node : run.parameters.owing(run.record)) {
    nodes.push_back(with_last_seen_after(Peer::of(node), last_seen));
  }
  if (nodes.empty()) return;  // nobody is left to send them, which ends the run
  found.push_back({"the wait for the last parameters", "the end waits for the parameters of version " +
                                                           to_string(last) + " from " + enumerated(nodes)});
}

void ending_waits(const RunWaiting& run, const LastSeen& last_seen, std::vector<Wait>& found) {
  std::vector<std::string> slices;
  for (const ShardId shard : run.model.missing()) {
    slices.push_back(with_last_seen_after(Peer::of(shard), last_seen));
  }
  if (!slices.empty()) {
    found.push_back({"the wait for the final model",
                     "the end waits for the final model's slice of " + enumerated(slices)});
  }
  if (run.model.is_being_written()) {
    found.push_back({"the wait for the final model's file",
                     "the end waits for the final model to be written to " + run.config.run.out});
  }
  std::vector<std::string> nodes;
  for (const NodeId node : run.members.in(RunMembers::NodeState::kJoined)) {
    if (run.record.has_report(node)) continue;
    nodes.push_back(with_last_seen_after(Peer::of(node), last_seen));
  }
  if (!nodes.empty()) {
    found.push_back(
        {"the wait for the nodes' reports", "the end waits for the report of " + enumerated(nodes)});
  }
}

// After training: what the shards have counted.
void closing_waits(const RunWaiting& run, const LastSeen& last_seen, std::vector<Wait>& found) {
  std::vector<std::string> shards;
  for (std::uint32_t k = 0; k < run.config.cluster.shards; ++k) {
    if (run.members.shard(ShardId(k)).reported) continue;
    shards.push_back(with_last_seen_after(Peer::of(ShardId(k)), last_seen));
  }
  if (!shards.empty()) {
    found.push_back(
        {"the wait for the shards' reports", "the end waits for the report of " + enumerated(shards)});
  }
}

}  // namespace

std::vector<Wait> waits_of(const RunWaiting& run, const LastSeen& last_seen, WaitsFor which) {
  std::vector<Wait> found;
  switch (run.stage) {
    case RunStage::kGathering:
      found.push_back({"the wait for the start, " + run.members.missing(),
                       "training has not begun: " + run.members.missing() + run.members.refusals()});
      break;
    case RunStage::kTraining:
      late_join_waits(run, last_seen, found);
      formation_waits(run, last_seen, found);
      training_waits(run, last_seen, which, found);
      evaluation_waits(run, last_seen, found);
      checkpoint_waits(run, last_seen, found);
      break;
    case RunStage::kEnding:
      parameter_waits(run, last_seen, found);
      ending_waits(run, last_seen, found);
      evaluation_waits(run, last_seen, found);
      checkpoint_waits(run, last_seen, found);
      break;
    case RunStage::kClosing:
      closing_waits(run, last_seen, found);
      break;
    case RunStage::kFiling:
      found.push_back({"the wait for the files of the end",
                       "the end waits for its files to be written to " + run.config.run.out});
      break;
    case RunStage::kOver:
      break;
  }
  return found;
}

}  // namespace paceline::server
