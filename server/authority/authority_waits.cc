// Why a run stands still, as the authority sees it: from the engine's state and its own, who waits for whom,
// and what that one has not done. Nothing here decides anything, or remembers anything: a StallLog
// (common/log/stall_log.h) knows which waits have become long. One line for each cause:
//
//   15 workers wait for version 118: worker 3.0 (node 3, last seen 0.4 s ago, clock 117) has not reported
//   worker 1.2 waits for version 118: worker 3.0 (node 3, last seen 0.1 s ago, clock 117) has reported, but
//     its gradient is not whole on shard 2 (last seen 0.2 s ago)
//   the end waits for the report of node 3 (last seen 0.4 s ago)
//
// What only a shard can see, a decision that it has not applied or a pull that it has not answered, is in
// that shard's log (server/shard_waits.cc).
#include <algorithm>
#include <map>
#include <utility>

#include "server/authority/authority.h"

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
    if ((lacking >> k & 1) != 0) names.push_back(with_last_seen_behind(Peer::of(ShardId(k)), last_seen));
  }
  return enumerated(names);
}

}  // namespace

std::vector<Wait> Authority::waits(const LastSeen& last_seen, WaitsFor which) const {
  std::vector<Wait> found;
  switch (stage_) {
    case Stage::kGathering:
      found.push_back(
          {"the wait for the start, " + missing(), "training has not begun: " + missing() + refusals()});
      break;
    case Stage::kTraining:
      coming_waits(last_seen, found);
      training_waits(last_seen, which, found);
      evaluation_waits(last_seen, found);
      checkpoint_waits(last_seen, found);
      break;
    case Stage::kEnding:
      ending_waits(last_seen, found);
      evaluation_waits(last_seen, found);
      checkpoint_waits(last_seen, found);
      break;
    case Stage::kClosing:
      closing_waits(last_seen, found);
      break;
    case Stage::kFiling:
      found.push_back({"the wait for the files of the end",
                       "the end waits for its files to be written to " + config_.run.out});
      break;
    case Stage::kOver:
      break;
  }
  return found;
}

// Nobody waits for it.
void Authority::coming_waits(const LastSeen& last_seen, std::vector<Wait>& found) const {
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i] != NodeState::kComing) continue;
    const Peer node = Peer::of(NodeId(i));
    found.push_back({"the wait of " + to_string(node) + " for all servers' welcome",
                     with_last_seen_behind(node, last_seen) +
                         " is let in, and has not said that all servers welcomed it"});
  }
}

// Who is held waits for the min clock to move, that is, for those who stand there and are in an iteration.
// Under backup one may be late, in an iteration whose clock has closed without it: it is waited for only
// where nobody else is. Who is asked to stop waits for everybody. Where nobody is held, the version still
// waits for the slowest.
void Authority::training_waits(const LastSeen& last_seen, WaitsFor which, std::vector<Wait>& found) const {
  const Cluster cluster = config_.cluster.cluster();
  const Clock open = engine_.min_clock();
  const bool waits_for_all = engine_.stopping() || engine_.quiescing();
  std::vector<WorkerId> held;
  std::map<std::uint64_t, Laggards> by_lacking;  // kNotReported, or which shards lack the gradient
  constexpr std::uint64_t kNotReported = 0;
  enum class Of { kTheirClock, kAnOlderOne };
  const auto gather = [&](Of clock) {
    for (std::uint32_t r = 0; r < cluster.workers(); ++r) {
      const WorkerId worker = cluster.worker_at(Rank(r));
      const auto iteration = engine_.iteration_of(worker);
      if (!iteration || (engine_.clock_of(worker) > open && !waits_for_all)) continue;
      const bool late = iteration->clock < engine_.clock_of(worker);
      if (late != (clock == Of::kAnOlderOne)) continue;
      Laggards& laggards = by_lacking[iteration->reported ? iteration->lacking : kNotReported];
      laggards.usual = std::max(laggards.usual, iterations_[r].usual());
      // Where clocks differ (a stop; a late worker of backup) each has its own.
      laggards.names.push_back("worker " + to_string(worker) + " (" +
                               with_last_seen(Peer::of(worker.node), last_seen) + ", clock " +
                               to_string(iteration->clock) + ")");
    }
  };
  for (std::uint32_t r = 0; r < cluster.workers(); ++r) {
    const WorkerId worker = cluster.worker_at(Rank(r));
    if (engine_.is_held(worker)) held.push_back(worker);
  }
  if (which == WaitsFor::kOfSomebody && held.empty() && !waits_for_all) return;
  gather(Of::kTheirClock);
  if (by_lacking.empty() || waits_for_all) gather(Of::kAnOlderOne);
  const std::string what = engine_.stopping()    ? "the stop"
                           : engine_.quiescing() ? "the run to come to rest"
                                                 : "version " + std::to_string(open.value + 1);
  const std::string who = held.empty() ? what + " waits" : waiters(held) + what;
  for (const auto& [lacking, laggards] : by_lacking) {
    const std::string has = laggards.names.size() == 1 ? " has" : " have";
    std::string why = enumerated(laggards.names) + has + " not reported";
    std::string cause = "the wait for " + what + ", until all have reported";
    if (lacking != kNotReported) {
      const std::string shards = shards_lacking(lacking, config_.cluster.shards, last_seen);
      const std::string its = laggards.names.size() == 1 ? "its gradient is" : "their gradients are";
      why = enumerated(laggards.names) + has + " reported, but " + its + " not whole on " + shards;
      const LastSeen nobody = [](Peer) { return std::nullopt; };
      cause = "the wait for " + what + ", for gradients on " +
              shards_lacking(lacking, config_.cluster.shards, nobody);
    }
    found.push_back({std::move(cause), who + ": " + why, laggards.usual});
  }
}

void Authority::evaluation_waits(const LastSeen& last_seen, std::vector<Wait>& found) const {
  const auto asked = evaluation_.asked();
  if (!asked) return;
  const std::string what = "the evaluation of version " + to_string(asked->version) + " by ";
  const Peer node = Peer::of(asked->node);
  const std::string by = what + with_last_seen_behind(node, last_seen);
  found.push_back(
      {"the wait for " + what + to_string(node),
       stage_ == Stage::kEnding ? "the end waits for " + by : by + " has not come, nobody waits for it",
       evaluations_.usual()});
}

void Authority::checkpoint_waits(const LastSeen& last_seen, std::vector<Wait>& found) const {
  std::vector<std::string> shards;
  for (const ShardId shard : checkpoints_.missing()) {
    shards.push_back(with_last_seen_behind(Peer::of(shard), last_seen));
  }
  if (shards.empty()) return;
  const bool held = stage_ == Stage::kEnding && run_status_ == "stopped";
  found.push_back({"the wait for a checkpoint's files",
                   std::string(held ? "the end" : "the next checkpoint") +
                       " waits for the file of a checkpoint to be written by " + enumerated(shards)});
}

void Authority::ending_waits(const LastSeen& last_seen, std::vector<Wait>& found) const {
  std::vector<std::string> slices;
  for (const ShardId shard : model_.missing()) {
    slices.push_back(with_last_seen_behind(Peer::of(shard), last_seen));
  }
  if (!slices.empty()) {
    found.push_back({"the wait for the final model",
                     "the end waits for the final model's slice of " + enumerated(slices)});
  }
  if (model_file_ == ModelFile::kBeingWritten) {
    found.push_back({"the wait for the final model's file",
                     "the end waits for the final model to be written to " + config_.run.out});
  }
  std::vector<std::string> nodes;
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i] != NodeState::kJoined || record_.has_report(NodeId(i))) continue;
    nodes.push_back(with_last_seen_behind(Peer::of(NodeId(i)), last_seen));
  }
  if (!nodes.empty()) {
    found.push_back(
        {"the wait for the nodes' reports", "the end waits for the report of " + enumerated(nodes)});
  }
}

// After training: what the shards have counted.
void Authority::closing_waits(const LastSeen& last_seen, std::vector<Wait>& found) const {
  std::vector<std::string> shards;
  for (std::uint32_t k = 0; k < shards_.size(); ++k) {
    if (!shards_[k].reported) shards.push_back(with_last_seen_behind(Peer::of(ShardId(k)), last_seen));
  }
  if (!shards.empty()) {
    found.push_back(
        {"the wait for the shards' reports", "the end waits for the report of " + enumerated(shards)});
  }
}

}  // namespace paceline::server
