// World: one simulated run. It owns the parties, hands them their events in order, and is the authority: the
// real synchronisation core (common/sync/engine.h) is told what the daemons' authority would be told, and its
// actions become messages in virtual time, in the order in which server/authority sends them: a step's grants
// leave before shard 0 applies what they follow from.
//
//   queue -> party -> engine -> actions -> queue
//
// In training mode it also does what the authority does with a model: evaluations of exact versions, at the
// instant at which they are reached and in no time, and the final model.
//
// Memory is linear in the number of workers; time in the number of iterations, times the logarithm of the
// number of workers for the queue.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/metric.h"
#include "common/params/model_file.h"
#include "common/report/batch_sizes.h"
#include "common/report/curve.h"
#include "common/report/phases_csv.h"
#include "common/report/progress.h"
#include "common/report/run_summary.h"
#include "common/report/staleness.h"
#include "common/status.h"
#include "common/sync/engine.h"
#include "common/trace/decision_log.h"
#include "simulate/computation.h"
#include "simulate/events.h"
#include "simulate/network.h"
#include "simulate/node.h"
#include "simulate/norm_groups.h"
#include "simulate/pipelines.h"
#include "simulate/plan.h"
#include "simulate/pulls.h"
#include "simulate/reductions.h"
#include "simulate/server.h"
#include "simulate/training.h"

namespace paceline::simulate {

// What a run leaves behind, as the files of a run directory say it.
struct Outcome {
  RunSummary summary;
  std::vector<CurveRow> curve;
  std::vector<WorkerPhases> phases;  // of the nodes that reported, in worker order
  std::vector<WorkerStaleness> staleness;
  std::vector<ProgressRow> progress;
  std::optional<ModelFile> model;        // training mode
  std::int64_t events = 0;               // taken from the queue
  std::optional<trace::Trace> recorded;  // run.trace
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
  // All outlive it; `watcher`: nullptr, nobody. `reductions`: of an all-reduce, `pipelines`: of stages, `norms`: of norm
  // groups; else nullptr.
  World(const Plan& plan, Computation& computation, Watcher* watcher = nullptr,
        Reductions* reductions = nullptr, Pipelines* pipelines = nullptr, NormGroups* norms = nullptr);
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // The whole run, once. Errors: kInvalidArgument, naming the keys, it is not over at the end of time; those
  // of the computation's task.
  Result<Outcome> run();
  const sync::Engine& engine() const { return engine_; }

 private:
  enum class Presence : std::uint8_t { kAbsent, kThere, kLost };

  // A decision on its way to the shards.
  struct Decision {
    sync::Apply apply;
    std::uint32_t shards_open = 0;
    wire::ApplyDecision told = {};        // training mode: as the shards are told it
    std::optional<std::size_t> row = {};  // of the curve, where the version that it leads to is evaluated
  };

  void dispatch(const Event& event, Ticks now);
  // `stamp`: of what the worker has sent (Node::sent()).
  void push_arrives(ShardId shard, std::uint32_t worker, std::uint32_t stamp, Ticks now);
  void push_taken(ShardId shard, std::uint32_t worker, std::uint32_t stamp, Ticks now);
  void report_arrives(std::uint32_t worker, std::uint32_t stamp, Ticks now);
  void take_pull(ShardId shard, std::uint32_t pull, Ticks now);
  void answer_arrives(ShardId shard, std::uint32_t pull, Ticks now);
  void crash(NodeId node, Ticks now);
  void lose(std::uint32_t incarnation, const std::string& why, Ticks now);
  void join(std::uint32_t incarnation, Ticks now);
  void plan_events();

  // The authority.
  void gradient_arrived(ShardId shard, std::uint32_t worker, std::uint32_t stamp, Ticks now);
  void reported(std::uint32_t worker, std::uint32_t stamp, Ticks now);
  void step(const sync::Event& event, Ticks now);
  void note_progress(Ticks now);
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
  void carry_out(const sync::Quiesced&, Ticks) {}          // never asked for
  void carry_out(const sync::ThresholdChanged&, Ticks) {}  // its window's row says so
  void carry_out(const sync::Discard& action, Ticks);
  void carry_out(const sync::RunFailed& action, Ticks);
  Ticks say(std::chrono::nanoseconds to_be_parsed, Ticks now);
  std::uint32_t keep(Decision decision);
  std::size_t gradients_at_shards(std::uint32_t decision) const;
  void tell(Decision& decision, Ticks now);
  void applied(ShardId shard, std::uint32_t decision, Ticks now);

  // The model.
  void note_trained(CurveRow& row);
  void evaluate(Version version, std::size_t row, Ticks now);
  void finish_model(Outcome& out);

  void add_trace(Outcome& out);
  Status endless() const;
  Result<Outcome> outcome();

  // Of a worker as events name it; of which incarnation it is, and whether that takes part.
  std::uint32_t incarnation_of(std::uint32_t worker) const { return worker / plan_.cluster.threads_per_node; }
  std::uint32_t thread_of(std::uint32_t worker) const { return worker % plan_.cluster.threads_per_node; }
  Node& node_at(std::uint32_t worker) { return nodes_[incarnation_of(worker)]; }
  bool is_live(std::uint32_t worker) const;
  WorkerId worker_of(std::uint32_t worker) const {
    return WorkerId(nodes_[incarnation_of(worker)].id(), thread_of(worker));
  }
  // As events name a worker of the run; and its node as it is there now.
  std::uint32_t number_of(WorkerId worker) const {
    return there_[worker.node.value] * plan_.cluster.threads_per_node + worker.thread;
  }

  const Plan& plan_;
  Events events_;
  Network network_;
  Pulls pulls_;
  Training* const training_;      // the computation's
  Reductions* const reductions_;  // null: gradients go to servers
  Pipelines* const pipelines_;    // null: each worker has the whole network
  Ticks phase_clock_;
  Surroundings surroundings_;
  std::vector<Server> servers_;
  std::vector<Node> nodes_;           // by incarnation
  std::vector<Presence> presence_;    // by incarnation
  std::vector<std::uint32_t> there_;  // by node: its last incarnation that came, else its first
  sync::Engine engine_;
  Watcher* watcher_;
  std::vector<sync::Action> actions_;
  std::vector<Decision> decisions_;
  std::vector<std::uint32_t> free_decisions_;
  std::vector<std::uint32_t> own_decisions_;  // shard 0's, of the step being carried out
  Ticks first_grant_;
  std::int64_t sequence_ = 0;  // of the next decision
  Version decided_;            // what the last one led to
  Revision revision_;          // the same
  std::map<std::tuple<ShardId, std::uint32_t, std::uint32_t>, std::string>
      faults_;                                           // found by shards, on their way; by worker, stamp
  std::optional<std::pair<Version, Metric>> evaluated_;  // last
  Metric trained_;                                       // of all reports
  Metric trained_evaluated_;                             // as of the last version that is evaluated
  std::int64_t events_taken_ = 0;
  StalenessRecord staleness_;
  ProgressRecord progress_;
  std::optional<BatchSizeRecord> batch_sizes_;  // none: sizes are equal
  RunSummary summary_;
  std::vector<CurveRow> curve_;
  std::optional<trace::DecisionLog> trace_;
};

}  // namespace paceline::simulate
