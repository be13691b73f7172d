// A simulated node: threads with thread caches, a process cache, shared pulls, driven by the real cache rules
// (common/cache). Before each computation it checks what the thread is about to compute with against
// DESIGN 3.2.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "common/cache/freshness.h"
#include "common/cache/own_updates.h"
#include "common/cache/snapshot.h"
#include "common/sync/actions.h"
#include "common/sync/events.h"
#include "tests/sim/counting.h"
#include "tests/sim/network.h"
#include "tests/sim/run_plan.h"
#include "tests/sim/shard_model.h"

namespace paceline::test {

// What the simulation knows and shares: the parties and the fate of each gradient.
struct Surroundings {
  const RunPlan& plan;
  Network& network;
  std::vector<std::unique_ptr<ShardModel>>& shards;
  Violations& violations;
  std::map<std::pair<WorkerId, Clock>, Fate> fates;
  std::int64_t clocks = 0;  // more than any worker can reach
  std::function<void(Party from, sync::Event)> tell_authority;
  std::int64_t pulls = 0, server_reads = 0;  // sent; reads that waited for one

  Fate fate(WorkerId worker, Clock clock) const {
    const auto found = fates.find({worker, clock});
    return found == fates.end() ? Fate::kNone : found->second;
  }
};

class NodeModel {
 public:
  // `incarnation`: how often it has been here before; its caches are empty each time.
  NodeModel(NodeId id, std::uint32_t incarnation, Surroundings& world);

  void on_grant(const sync::Grant& grant);
  void die();
  Party party() const { return node_party(id_.value, incarnation_); }

 private:
  struct Thread {
    WorkerId id;
    std::optional<Clock> first;  // own stamp of this incarnation
    sync::Grant grant;
    cache::ThreadCacheState state;
    cache::SnapshotStamp taken;  // the stamps of the snapshot the thread holds
    std::vector<Counts> counts;  // per shard: snapshot and own updates
    cache::OwnUpdates own;
    int with_push = -1;         // the pull sent or joined with the last push
    bool in_iteration = false;  // granted, and not reported
  };
  struct Pull {
    Version min_version;
    std::uint32_t answers_due = 0;
    std::vector<std::uint32_t> waiting_threads;
  };

  cache::FreshnessRules rules(const Thread& thread) const;
  void read(Thread& thread);
  void take_process_cache(Thread& thread);
  void compute(Thread& thread);
  void finish_step(Thread& thread);
  void leave();
  bool tells_other_samples();
  void push(Thread& thread, bool whole);
  int pull(Version min_version);
  int pull_or_join(Version min_version);
  void on_answer(int pull, ShardId shard, const SliceAnswer& answer);
  void check_read(const Thread& thread);
  void violation(const Thread& thread, const std::string& what);
  cache::ProcessCacheState process_state() const { return {process_.version(), process_.revision()}; }

  NodeId id_;
  std::uint32_t incarnation_;
  Surroundings& world_;
  bool dead_ = false;
  bool keeps_own_;
  std::vector<Thread> threads_;
  cache::SnapshotStamp process_;
  std::vector<std::shared_ptr<const Counts>> process_counts_;
  Version newest_version_;
  Revision newest_revision_;
  std::map<int, Pull> pulls_;
  int next_pull_ = 0;
};

}  // namespace paceline::test
