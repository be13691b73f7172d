// What the next decision will make of the parameters: prepared frame by frame while gradients arrive, and
// finished when it is decided (docs/ARCHITECTURE.md, Parameters in memory). It goes into blocks of its
// own, in time that the loop would spend waiting, and need not be done: where frames come faster than they are
// applied (over shared memory, or when the cores are busy) they are read first. What is left is then done
// with the decision, by several threads.
//
// Which gradients the next decision takes, and in which order, is known before it is taken, as long as nobody
// dies (store/decision_predictor.h). So a block of the next state takes the predicted gradients in the predicted
// order, each as soon as that part of it is here. Nobody sees these blocks. The decision says what is right.
// If it begins with what was prepared, the rest is done and the blocks take the place of the current ones; a
// mean's step is written into the current block itself where nobody reads that. Else they are dropped, and the
// decision is applied from the start, out of the gradients, which are held until then. So a wrong prediction, or
// a sender that dies half-way, costs work and leaves no trace.
//
//   versioned, each, workers 0, 1, 2; four blocks; here: 0 whole, 1 to its half, 2 whole
//     taken      block 0: 0 1 2   block 1: 0 1 2   block 2: 0   block 3: 0
//     decided {0, 1, 2}           blocks 2 and 3 take 1 and 2; all four become current
//     node 1 lost, decided {0,2}  dropped: 1 is in blocks 0 and 1
//
// combine: each: a block is the current one with gradients applied; only with an optimizer without state, as
// state is changed in place and could not be taken back. combine: mean: a block is the weighted sum so far,
// any optimizer; the state changes with the decision.
//
// With delay compensation nothing is prepared (store/compensated_apply.h).
//
// The bits are those of applying the decision from the start: the same operations on each element in the same
// order (docs/SYNC.md, What is reproducible).
//
// Memory: prepared blocks are a second state beside the current one, so prepare_some() and
// prepare_whole() must not be called while an older one is leaving (store/reply_window.h). Thread: one at a
// time (the server's loop); whatever goes over blocks has helpers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <iterator>
#include <span>
#include <vector>

#include "common/config/run_config.h"
#include "common/params/blocks.h"
#include "common/params/optimizer.h"
#include "common/params/staleness.h"
#include "common/wire/messages.h"
#include "server/store/apply_pool.h"
#include "server/store/backups.h"
#include "server/store/compensated_apply.h"
#include "server/store/decision_predictor.h"
#include "server/store/gradient_store.h"
#include "server/store/shard_settings.h"

namespace paceline::server {

class SpeculativeApply {
 public:
  // For a range of `size` floats whose blocks are of `pool`.
  SpeculativeApply(const ShardSettings& settings, std::int64_t size, const BlockPool& pool);

  // A piece of `floats` floats of some gradient has come.
  void arrived(const wire::Push& push, std::int64_t floats);
  // Whether there may be something to prepare.
  bool may_prepare() const {
    return prepares() && (!candidates_.empty() || next_tried_ < std::ssize(blocks_));
  }
  // Has blocks take one gradient, one for each thread there is, if that is possible; false when none can.
  // `now` are the blocks of `version`. A block is at most 1 MiB, so it takes some 0.1 ms; when nothing is
  // here that could be taken, no block is looked at.
  bool prepare_some(const BlockRange& now, Version version, GradientStore& gradients);
  // Has each block whose turn it is for this whole gradient take it, if that costs less than to check the
  // gradient now and apply it with the decision; with several threads. To be called when it has become whole:
  // what nobody has checked (store/gradient.h) is checked and applied in one pass over memory.
  void prepare_whole(const Gradient& whole, const BlockRange& now, Version version, GradientStore& gradients);
  // Checks what nobody has checked of a whole gradient, with several threads.
  void check_rest_finite(Gradient& whole);

  // Some gradients have been forgotten: what was taken of them is dropped.
  void forget_missing(const GradientStore& gradients);

  // Makes `now` what the decision makes of it. Its gradients are whole, and here; with delay compensation so
  // is what they were computed with, which gets their local applies.
  void apply(const wire::ApplyDecision& decision, const GradientStore& gradients, BlockRange& now,
             Backups& backups);

  // What applying keeps from decision to decision, for a checkpoint, shared (common/params/state_vector.h):
  // the optimizer's state and delay compensation's. What is prepared is no part of it.
  OptimizerImage optimizer() { return optimizer_.image(); }
  const BlockRange& mean_square() const { return compensated_.image(); }
  // Goes on from there, after `revision`; before anything is prepared or applied. Errors as
  // OptimizerState::restore() and DelayCompensation::restore(); nobody can go on with it then.
  [[nodiscard]] Status restore(Revision revision, OptimizerImage optimizer, BlockRange mean_square);

  // Of the blocks prepared since the start, those that a decision took over and those that were thrown away.
  std::int64_t committed() const { return committed_; }
  std::int64_t dropped() const { return dropped_; }

 private:
  // One of the next state's blocks, and how many of `taken_` are in it.
  struct Block {
    BlockRef floats;
    std::size_t taken = 0;
    bool candidate = false;  // is among candidates_
  };
  void learn_samples(const wire::Push& push);
  Gradient* next(std::size_t already, Version version, GradientStore& gradients) const;
  bool can_take(std::int64_t i, const BlockRange& now, Version version, Gradient& gradient);
  bool expect(std::size_t already, Version version, const Gradient& gradient);
  void take(std::int64_t i, const BlockRange& now, Gradient& gradient);
  // What becomes of a block that has taken a gradient: nothing for a while, or it takes the next at once.
  enum class Then { kDone, kReadAgain };
  Stores stores_of(std::span<const float> in, std::span<const float> out, Then then) const;
  void write_step(double rate, std::int64_t offset, std::span<const float> in, std::span<float> out,
                  std::span<const float> gradient, Then then);
  double divisor_of(const wire::Contribution& c) const {
    return staleness_divisor(settings_.staleness, c.staleness);
  }
  float weight_of(const wire::Contribution& c) const {
    return staleness_weight(settings_.staleness, c.samples, c.staleness);
  }
  void run(std::int64_t floats, std::int64_t count,
           const std::function<void(std::size_t thread, std::int64_t i)>& work);
  bool is_beginning_of(const wire::ApplyDecision& decision) const;
  void apply_each(const wire::ApplyDecision& decision, const GradientStore& gradients, BlockRange& now);
  std::int64_t take_over_finished(std::size_t contributions, BlockRange& now);
  void apply_each_with_state(const wire::ApplyDecision& decision, const GradientStore& gradients,
                             BlockRange& now);
  void apply_mean(const wire::ApplyDecision& decision, const GradientStore& gradients, BlockRange& now);
  std::span<float> sum_of_block(std::size_t thread, std::int64_t i, Range elements);
  void make_mean(std::int64_t i, std::span<float> sum, const wire::ApplyDecision& decision, float share,
                 const GradientStore& gradients);
  void measure(const BlockRange& now);
  bool prepares() const {
    return may_be_prepared_ &&
           (predictor_.combine() == CombineMode::kMean || settings_.kind == OptimizerKind::kSgd);
  }
  void drop();

  DecisionPredictor predictor_;
  const OptimizerSection settings_;
  const std::int64_t size_;
  const std::int64_t apply_alone_floats_;
  const bool may_be_prepared_;
  BlockPool pool_;
  OptimizerState optimizer_;
  CompensatedApply compensated_;
  ApplyPool apply_pool_;
  // Per thread: one block of a clock's weighted sum. Where the optimizer measures whole tensors: the whole, in one.
  std::vector<std::vector<float>> sums_;

  std::vector<Block> blocks_;
  std::vector<std::int64_t> unfinished_;  // scratch: what a pass goes over
  std::int64_t prepared_ = 0;             // blocks, at the moment
  std::int64_t committed_ = 0;
  std::int64_t dropped_ = 0;
  // Blocks that may be able to take something: those of pieces that have come, and all from next_tried_ on,
  // since what is expected next has changed.
  std::deque<std::int64_t> candidates_;
  std::int64_t next_tried_ = 0;
  std::vector<wire::Contribution> taken_;  // in order; each block has taken some first ones of these
  Version prepared_for_;                   // what is current while they are
  double learning_rate_ = 0.0;             // with which taken_ are applied
};

}  // namespace paceline::server
