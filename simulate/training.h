// Training mode: the numbers behind the stamps. Nodes, servers and the world of a simulated run (node.h,
// server.h, world.h) move stamps; here the parameters and gradients that these speak of move along, in the
// order of the events, in the very classes of the daemons:
//
//   a computation ends          -> Task, with its worker's ThreadCache, as old as that is
//   a server takes a push       -> Shard::push, as float32 or through GradientEncoder
//   a decision is applied       -> Shard::apply, with the authority's learning rate
//   a pull is answered          -> the shard's blocks are shared; ProcessCache::install
//   a worker reads              -> ThreadCache::refresh and apply_deferred
//
// Nothing here decides when anything happens, or what. That the real classes hold the versions and revisions
// which the stamps say is asserted at every read, computation and answer.
//
// While a computation lasts nothing changes a worker's parameters. So its gradient is made when it ends, and
// nobody has to keep it for so long.
//
// A node that comes back is another process: nothing of what it had is left to it (comes_back()).
//
// Members of a norm group (train.batch_norm_group) need each other's values in the middle of a step. Their steps end
// once all have begun (norm_groups.h); with the first that ends the gradients of all are made, each from its own
// parameters, on threads that meet at each norm (worker/model/group_trainers.h).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/cache/snapshot.h"
#include "common/params/model_file.h"
#include "common/status.h"
#include "common/sync/actions.h"
#include "common/task/task.h"
#include "simulate/computation.h"
#include "simulate/plan.h"
#include "simulate/training_shard.h"
#include "simulate/training_worker.h"
#include "worker/cache/process_cache.h"
#include "worker/model/group_trainers.h"
#include "worker/model/norm_meeting.h"
#include "worker/train/batch_limits.h"

namespace paceline::simulate {

// Thread: the one that made it.
class Training {
 public:
  // The run at its start: initial parameters on every shard. All outlive it. `meeting`: where the tasks' trainers of a
  // norm group meet (make_network_tasks()), each worker's being as good as that of the same member of another group;
  // null: there are no groups. Errors: the tasks'.
  static Result<std::unique_ptr<Training>> begin(const Plan& plan, TaskFactory& tasks,
                                                 NormMeeting* meeting = nullptr);

  // What went wrong since, if anything did: a task's error, or that a shard and the core do not agree. The
  // run cannot go on.
  const Status& status() const { return status_; }

  // Workers. begins(): its computation does.
  void begins(const Computation::Step& step);
  Computation::Computed compute(const Computation::Step& step);
  // The round's `n`-th fragment leaves, from the parameters' end.
  void cut(Rank worker, std::int64_t n) { workers_[worker.value]->cut(n); }
  void apply_locally(Rank worker, const sync::Grant& grant);
  void send(Rank worker) { workers_[worker.value]->send(); }
  // Takes over what is newer in its node's process cache; `now` is its clock, `taken` what it has then.
  void refresh(Rank worker, Clock now, const cache::SnapshotStamp& taken);
  void apply_deferred(Rank worker);

  // Servers. What is not finite in a gradient that has come whole, as it is reported, or nothing.
  std::string push_taken(ShardId shard, Rank worker, Clock clock);
  // Of a decision that says so the state is retained, until evaluate().
  void apply(ShardId shard, wire::ApplyDecision decision);
  void discard(const sync::Discard& discard);
  // The answer to the pull at this place sets off; `stamp` says of which state it is, and learns which of the
  // own gradients of `node` that contains. confirm(): only the stamp does.
  // `fragment`: of the shard, what was asked for.
  void answer(std::uint32_t pull, ShardId shard, std::int64_t fragment, NodeId node,
              cache::SliceStamp& stamp);
  void confirm(ShardId shard, NodeId node, cache::SliceStamp& stamp);
  void nothing_in_flight(ShardId shard) { shards_[shard.value].nothing_in_flight(); }

  // Nodes: the answer is there, or nobody is there to read it. `slice`: its number in the caches.
  void install(NodeId node, std::uint32_t pull, ShardId shard, ShardId slice);
  void drop(std::uint32_t pull, ShardId shard) { answers_[pull][shard.value] = nullptr; }
  void confirmed(NodeId node, ShardId slice, const cache::SliceStamp& stamp);
  // `node`, which was lost, is there again: empty caches, optimizers and encoders as at the start, and new
  // trainers where each worker has its own. What it pushed whole before stays with the shards.
  void comes_back(NodeId node);

  // The test set's metric of the retained version, which all shards have applied and which goes.
  Metric evaluate(Version version);
  // The same of what they hold now, and that itself.
  Metric evaluate_now() { return evaluate(parameters()); }
  std::vector<float> parameters() const;
  const Layout& layout() const { return tasks_.layout(); }

 private:
  // A gradient, with its worker, or why there is none.
  struct Made {
    Computation::Computed computed;
    Status status;
  };
  Training(const Plan& plan, TaskFactory& tasks, NormMeeting* meeting, std::span<const float> initial);
  Status make_trainers();
  Made make(Task& task, const Computation::Step& step);
  void make_group(std::uint32_t first);
  void make_caches(NodeId node);
  Task& trainer(Rank worker) { return *trainers_[trainers_.size() == 1 ? 0 : worker.value]; }
  Metric evaluate(std::span<const float> parameters);
  void require(const Status& done) {
    if (status_.is_ok()) status_ = done;
  }

  const Plan& plan_;
  TaskFactory& tasks_;
  NormMeeting* const meeting_;
  const std::vector<Range> ranges_;  // of the shards
  const std::vector<Range> slices_;  // of the caches
  const BatchLimits limits_;
  Status status_ = Status::ok();
  std::vector<std::unique_ptr<Task>> trainers_;  // by rank, or one for all; none where there are groups
  std::unique_ptr<GroupTrainers> group_;         // null: there are none
  std::vector<Computation::Step> begun_;         // of groups, by rank: the last step
  std::vector<std::optional<Made>> made_;        // of groups, by rank: until its computation ends
  std::unique_ptr<Task> evaluator_;              // made by the first evaluation
  BlockPool gradients_;
  std::deque<TrainingShard> shards_;
  std::vector<std::unique_ptr<ProcessCache>> nodes_;
  std::vector<std::unique_ptr<TrainingWorker>> workers_;            // by rank
  std::vector<std::vector<std::shared_ptr<const Slice>>> answers_;  // by the pull's place and shard
  std::map<Version, std::vector<BlockRange>> retained_;             // by shard
};

// Lengths as in timing mode; the metric is the gradient's own.
class TrainedComputation final : public Computation {
 public:
  TrainedComputation(const Plan& plan, Training& training) : timed_(plan), training_(training) {}
  Ticks ends(const Step& step) override {
    training_.begins(step);
    return timed_.ends(step);
  }
  bool overran() const override { return timed_.overran(); }
  Computed compute(const Step& step) override { return training_.compute(step); }
  Training* training() override { return &training_; }

 private:
  TimedComputation timed_;
  Training& training_;
};

}  // namespace paceline::simulate
