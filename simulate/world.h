// World: one simulated run. It owns the parties and hands them their events in order; the authority
// (authority.h) tells the core.
//
//   queue -> party -> engine -> actions -> queue
//
// In training mode the authority also does what it does with a model: evaluations of exact versions, at the
// instant at which they are reached and in no time, and the final model.
//
// Memory is linear in the number of workers; time in the number of iterations, times the logarithm of the
// number of workers for the queue.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"
#include "simulate/authority.h"
#include "simulate/computation.h"
#include "simulate/events.h"
#include "simulate/network.h"
#include "simulate/nodes.h"
#include "simulate/norm_groups.h"
#include "simulate/outcome.h"
#include "simulate/pipelines.h"
#include "simulate/plan.h"
#include "simulate/pulls.h"
#include "simulate/reductions.h"
#include "simulate/run_record.h"
#include "simulate/server.h"
#include "simulate/surroundings.h"

namespace paceline::simulate {

// Thread: one.
class World {
 public:
  // All outlive it; `watcher`: nullptr, nobody. `reductions`: of an all-reduce, `pipelines`: of stages, `norms`: of
  // norm groups; else nullptr.
  World(const Plan& plan, Computation& computation, Watcher* watcher = nullptr,
        Reductions* reductions = nullptr, Pipelines* pipelines = nullptr, NormGroups* norms = nullptr);
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // The whole run, once. Errors: kInvalidArgument, naming the keys, it is not over at the end of time; those
  // of the computation's task.
  Result<Outcome> run();
  const sync::Engine& engine() const { return authority_.engine(); }

 private:
  void dispatch(const Event& event, Ticks now);
  // An event of one worker, whose node is there.
  void dispatch(EventKind kind, Worker& worker, Ticks now);
  // `stamp`: of what the worker has sent (sent_steps.h).
  void push_taken(ShardId shard, std::uint32_t worker, std::uint32_t stamp, Ticks now);
  void take_pull(ShardId shard, std::uint32_t pull, Ticks now);
  void answer_arrives(ShardId shard, std::uint32_t pull, Ticks now);
  void crash(NodeId node, Ticks now);
  void lose(std::uint32_t incarnation, const std::string& why, Ticks now);
  void join(std::uint32_t incarnation, Ticks now);
  void plan_events();
  Status endless() const;
  Result<Outcome> outcome();
  trace::Trace trace_of(const trace::DecisionLog& log) const;

  const Plan& plan_;
  Events events_;
  Network network_;
  Pulls pulls_;
  Ticks phase_clock_;
  Pipelines* const pipelines_;
  const Surroundings surroundings_;
  std::vector<Server> servers_;
  Nodes nodes_;
  RunRecord record_;
  Authority authority_;
  std::int64_t events_taken_ = 0;
};

}  // namespace paceline::simulate
