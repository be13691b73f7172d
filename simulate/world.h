// World: one simulated run. It owns the parties, hands them their events in order, and is the authority: the
// real synchronisation core (common/sync/engine.h) is told what the daemons' authority would be told, and its
// actions become messages in virtual time, in the order in which server/authority sends them: a step's grants
// leave before shard 0 applies what they follow from.
//
//   queue -> party -> engine -> actions -> queue
//
// Memory is linear in the number of workers; time in the number of iterations, times the logarithm of the
// number of workers for the queue.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/report/curve.h"
#include "common/report/phases_csv.h"
#include "common/report/run_summary.h"
#include "common/report/staleness.h"
#include "common/status.h"
#include "common/sync/engine.h"
#include "simulate/computation.h"
#include "simulate/events.h"
#include "simulate/network.h"
#include "simulate/node.h"
#include "simulate/plan.h"
#include "simulate/pulls.h"
#include "simulate/server.h"

namespace paceline::simulate {

// What a run leaves behind, as the files of a run directory say it.
struct Outcome {
  RunSummary summary;
  std::vector<CurveRow> curve;
  std::vector<WorkerPhases> phases;  // of the nodes that reported, in worker order
  std::vector<WorkerStaleness> staleness;
  std::int64_t events = 0;  // taken from the queue
};

// Looks on at what the core is told and what it decides: for tests.
class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual void before(const sync::Event& event, Ticks now) = 0;
  virtual void after(const std::vector<sync::Action>& actions) = 0;
};

// Thread: one.
class World {
 public:
  // All outlive it; `watcher`: nullptr, nobody.
  World(const Plan& plan, Computation& computation, Watcher* watcher = nullptr);
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // The whole run, once. Errors: kInvalidArgument, naming the keys, it is not over at the end of time.
  Result<Outcome> run();
  const sync::Engine& engine() const { return engine_; }

 private:
  // A decision on its way to the shards.
  struct Decision {
    sync::Apply apply;
    std::uint32_t shards_open = 0;
  };

  void dispatch(const Event& event, Ticks now);
  void push_arrives(ShardId shard, std::uint32_t rank, Ticks now);
  void push_taken(ShardId shard, std::uint32_t rank, Ticks now);
  void answer_arrives(ShardId shard, std::uint32_t pull, Ticks now);
  void crash(NodeId node, Ticks now);
  void lose(NodeId node, Ticks now);

  // The authority.
  void gradient_arrived(ShardId shard, std::uint32_t rank, Ticks now);
  void reported(std::uint32_t rank, Ticks now);
  void step(const sync::Event& event, Ticks now);
  void carry_out(const sync::Started& action, Ticks now);
  void carry_out(sync::Apply& action, Ticks now);
  void carry_out(const sync::Grant& action, Ticks now);
  void carry_out(const sync::WindowClosed& action, Ticks now);
  void carry_out(const sync::PolicySwitched& action, Ticks now);
  void carry_out(const sync::FinishWorker& action, Ticks now);
  void carry_out(const sync::AllFinished& action, Ticks now);
  void carry_out(const sync::Reject& action, Ticks now);
  void carry_out(const sync::Held&, Ticks) {}
  void carry_out(const sync::VersionAdvanced&, Ticks) {}
  void carry_out(const sync::ThresholdChanged&, Ticks) {}  // its window's row says so
  void carry_out(const sync::Discard&, Ticks) {}           // nothing of it has counted anywhere
  void carry_out(const sync::RunFailed&, Ticks) {}
  Ticks say(std::chrono::nanoseconds to_be_parsed, Ticks now);
  std::uint32_t keep(sync::Apply& apply);
  void applied(ShardId shard, std::uint32_t decision, Ticks now);

  Status endless() const;
  Outcome outcome();

  NodeId node_of(std::uint32_t rank) const { return plan_.cluster.worker_at(Rank(rank)).node; }
  Node& node_at(std::uint32_t rank) { return nodes_[node_of(rank).value]; }
  std::uint32_t thread_of(std::uint32_t rank) const { return plan_.cluster.worker_at(Rank(rank)).thread; }

  const Plan& plan_;
  Events events_;
  Network network_;
  Pulls pulls_;
  Ticks phase_clock_;
  Surroundings surroundings_;
  std::vector<Server> servers_;
  std::vector<Node> nodes_;
  sync::Engine engine_;
  Watcher* watcher_;
  std::vector<sync::Action> actions_;
  std::vector<Decision> decisions_;
  std::vector<std::uint32_t> free_decisions_;
  std::vector<std::uint32_t> own_decisions_;  // shard 0's, of the step being carried out
  Ticks first_grant_;
  std::int64_t events_taken_ = 0;
  StalenessRecord staleness_;
  RunSummary summary_;
  std::vector<CurveRow> curve_;
};

}  // namespace paceline::simulate
