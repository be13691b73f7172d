// NodeModel: this node's copy of what an all-reduce steps: the parameters, at one version, and the optimizer's state,
// all of it or a share (sharded_optimizer.h).
//
// Parameters are replaced, never changed: what the process cache, an evaluation or a checkpoint has of a version stays.
//
// Thread: one at a time (AllReduceExchange's lock).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/config/run_config.h"
#include "common/params/blocks.h"
#include "common/params/layout.h"
#include "common/params/optimizer.h"
#include "common/status.h"
#include "worker/allreduce/sharded_optimizer.h"
#include "worker/exchange/run_state.h"

namespace paceline {

// Where a node's layout lies in that of the run, which has so many floats: that of a stage is a part of it.
struct PlaceInRun {
  std::int64_t begin = 0;
  std::int64_t floats = 0;
};

class NodeModel {
 public:
  // Both outlive this; exchange.kind: allreduce. `memory`: where parameters lie; null: on the heap.
  NodeModel(const RunConfig& config, const Layout& layout, PlaceInRun place,
            std::shared_ptr<std::pmr::memory_resource> memory);

  // kNoVersion: nothing yet.
  Version version() const { return version_; }
  const BlockRange& parameters() const { return parameters_; }
  bool is_sharded() const { return sharded_.has_value(); }

  // All of a run's state. `shares`: of a sharded optimizer. Errors: kInvalidArgument other than as many floats as
  // version and optimizer ask for.
  [[nodiscard]] Status begin(const RunState& from, const Shares& shares);
  // The same in the middle of a run, of another node's state; parameters alone where the optimizer is sharded.
  [[nodiscard]] Status take_over(const RunState& from);

  // One step by the mean of gradients, which may be changed.
  void step(std::span<float> mean);
  // No step: the next version has the same parameters and the same state, but Adam's t counts it: who is given a
  // version has its number for t.
  void skip_step();
  // step() of a sharded optimizer: own and kept parts of the mean become parameters, in place ...
  void begin_step(std::span<float> mean);
  // ... and all of them are here.
  void end_step(std::span<const float> parameters);
  // Those parts, at both.
  std::vector<Range> parts() const { return sharded_->parts(); }
  // Another formation of a sharded optimizer (ShardedOptimizer): made beside what is here, and put in its place.
  Result<ShardedOptimizer::Parts> moved_to(Shares next, Version version, std::span<float> all,
                                           const std::function<Status()>& sum_all) const {
    return sharded_->moved_to(std::move(next), version, all, sum_all);
  }
  void move(ShardedOptimizer::Parts moved) { sharded_->move(std::move(moved)); }

  // Keeps this version, which is the newest, until take_kept() of it or a later one; nothing where it is not.
  void keep(Version version);
  // Exactly this version: one that is kept, or the newest; nullopt: neither.
  std::optional<BlockRange> take_kept(Version version);

  // All of it, at the newest version, as parts of the run's where the layout is one; of a sharded optimizer, and of
  // the parameters then, what is this node's, and what it keeps: its owner may be lost before it has given it. What is
  // returned makes the copy, any thread: the next step is made beside what it holds.
  std::function<std::shared_ptr<const RunState>()> state() const;
  // One vector of it: the parameters, 0, or those of an optimizer that is not sharded.
  void copy_vector(int number, std::span<float> out) const;
  // So many it has that the next node of a formation is given.
  int vectors() const { return 1 + (sharded_ ? 0 : state_vectors(config_.train.optimizer.kind)); }

 private:
  // The authority asks for one evaluation at a time, and has one more wait; it may give one up.
  static constexpr std::size_t kKeptMax = 3;

  Status take_parameters(const RunState& from, int vectors);

  const RunConfig& config_;
  const Layout& layout_;
  const PlaceInRun place_;
  BlockPool pool_;
  BlockRange parameters_;                    // in one block
  OptimizerState optimizer_;                 // of nothing where it is sharded
  std::optional<ShardedOptimizer> sharded_;  // exchange.shard_optimizer
  Version version_ = kNoVersion;
  std::deque<std::pair<Version, BlockRange>> kept_;  // to be evaluated
};

}  // namespace paceline
