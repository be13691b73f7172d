// A simulated node: threads with thread caches, a process cache and shared pulls. What a thread does next the
// real state machine of a worker decides (common/step/worker_step.h). Before each computation it checks what
// the thread is about to compute with against docs/SYNC.md, What a worker sees. It has a real link to each
// server. What may not have been heard of it is said again by its real UnackedMessages, after a connection that
// broke (worker/client).
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "common/cache/own_updates.h"
#include "common/cache/snapshot.h"
#include "common/step/worker_step.h"
#include "common/sync/actions.h"
#include "tests/sim/counting.h"
#include "tests/sim/network.h"
#include "tests/sim/run_plan.h"
#include "tests/sim/shard_model.h"
#include "worker/client/server_link.h"
#include "worker/client/unacked_messages.h"

namespace paceline::test {

class NodeModel;

// What the simulation knows and shares: the parties and the fate of each gradient.
struct Surroundings {
  const RunPlan& plan;
  Network& network;
  Violations& violations;
  std::map<std::pair<WorkerId, Clock>, Fate> fates;
  std::int64_t clocks = 0;  // more than any worker can reach
  // Of node `from`, by the server of `to`.
  std::function<void(NodeModel& from, ShardId to, const wire::Message&)> receives;
  std::int64_t pulls = 0, server_reads = 0;  // sent; reads that waited for one
  std::int64_t retransmitted = 0;            // gradients and pulls, each to one server

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
  void on_finish(WorkerId worker);
  void die();

  // Its connection to that server broke: until it is welcomed over another one it says nothing there.
  void broke(ShardId server);
  void is_welcomed(ShardId server);
  // Since when it has none.
  std::optional<Ticks> broken_since(ShardId server) const;
  void on_answer(std::uint64_t request, ShardId shard, const SliceAnswer& answer);

  NodeId id() const { return id_; }
  bool is_dead() const { return dead_; }
  Party party() const { return node_party(id_.value, incarnation_); }
  // At the end: if it lives, all of its threads have been told that they have finished.
  void check_finished();

 private:
  struct Thread {
    Thread(WorkerId worker, const step::StepRules& rules) : id(worker), step(rules) {}

    WorkerId id;
    step::WorkerStep step;
    std::int64_t local_step = 0;
    bool spoiled = false;              // by a local step before the last: its loss was not finite
    std::optional<Clock> first;        // own stamp of this incarnation
    std::deque<sync::Grant> expected;  // have come, and are not begun: one, where grants go ahead
    bool awaits = true;                // it looks for the next
    sync::Grant grant;
    cache::ThreadCacheState state;
    cache::SnapshotStamp taken;  // the stamps of the snapshot the thread holds
    std::vector<Counts> counts;  // per shard: snapshot and own updates
    cache::OwnUpdates own;
    int pulled = -1;               // the pull sent or joined with the last push
    bool installs_early = false;   // it waits for that
    Metric metric;                 // as it reports it
    std::int64_t own_updates = 0;  // in what it computed with
    bool in_iteration = false;     // granted, and not reported
    bool finished = false;
  };
  struct Pull {
    Version min_version;
    std::set<ShardId> due;  // of whom the answer is
    std::vector<std::uint32_t> waiting_threads;
  };

  // Takes an event of the thread's state machine and carries out what follows.
  void advance(Thread& thread, const step::Event& event);
  void carry_out(Thread& thread, const step::AwaitParameters& action);
  void carry_out(Thread& thread, const step::MakeCurrent& action);
  std::int64_t local_steps(const Thread& thread) const;
  void carry_out(Thread& thread, const step::LoadBatch&);
  void carry_out(Thread&, const step::SendFragment&) {}  // no plan has fragments
  void carry_out(Thread& thread, const step::Pull& action);
  void carry_out(Thread& thread, const step::Compute& action);
  void carry_out(Thread& thread, const step::CheckGradient&);
  void carry_out(Thread& thread, const step::ApplyLocally&);
  void carry_out(Thread& thread, const step::Contribute&);
  void carry_out(Thread&, const step::Withdraw&) {}
  void carry_out(Thread& thread, const step::Report& action);
  void carry_out(Thread& thread, const step::InstallEarly&);
  void carry_out(Thread& thread, const step::AwaitInstruction&);
  void begin(Thread& thread);

  step::View view(const Thread& thread) const;
  bool process_is_newer(const Thread& thread) const;
  void take_process_cache(Thread& thread);
  void finish_step(Thread& thread);
  void leave();
  bool reports_other_samples();
  void send(ShardId server, const wire::Message& message);
  void push(Thread& thread, bool whole);
  int pull(Version min_version);
  void ask(int number, const Pull& pull, ShardId server);
  int pull_or_join(Version min_version);
  void check_read(const Thread& thread);
  void violation(const Thread& thread, const std::string& what);
  cache::ProcessCacheState process_state() const { return {process_.version(), process_.revision()}; }

  NodeId id_;
  std::uint32_t incarnation_;
  Surroundings& world_;
  bool dead_ = false;
  std::vector<ServerLink> links_;  // by shard; the first one is the authority's, too
  UnackedMessages outstanding_;
  std::vector<Thread> threads_;
  cache::SnapshotStamp process_;
  std::vector<std::shared_ptr<const Counts>> process_counts_;
  Version newest_version_;
  Revision newest_revision_;
  std::map<int, Pull> pulls_;
  int next_pull_ = 0;
};

}  // namespace paceline::test
