// Local steps: a worker takes several mini-batches with an optimizer of its own, the inner one, before it
// exchanges anything (train.local_steps, train.inner_optimizer). SparkNet (Moritz, Nishihara, Stoica and Jordan,
// ICLR 2016, section 2), local SGD; with a momentum at the servers DiLoCo (Douillard et al., 2023).
//
//   begin()   the parameters that the round begins with are copied
//   step()    once a mini-batch, at parameters(): a step of the inner optimizer, of these
//   delta()   begin - end: what all steps of the round have taken away
//
// Of a buffer, as a running mean, the delta is what the steps have made of it (common/params/step_factors.h).
// So a delta has the sign of a gradient: the servers' optimizer, the outer one, takes steps along what workers
// found. With kind sgd and lr 1 under combine: mean that is their average, parameter by parameter.
//
//   begin 10, two steps of lr 0.5 with gradients 2 and 4:   10 -> 9 -> 7, delta 3
//   another worker's delta 1, outer sgd, lr 1, mean:         10 - (3 + 1) / 2 = 8 = (7 + 9) / 2
//
// A part of the delta may be made before the round's end (exchange.fragments): cut(). What steps after it add there
// stays in the parameters, and is in the next round's delta, which counts from where the part was cut:
//
//   begin 10, 10 -> 9, cut(): delta 1, 9 -> 7     the next round begins with 9.5: at 9.5 - 2 = 7.5
//     7.5 -> 7, cut(): delta 9.5 - 7 = 2.5
//
// The inner optimizer's state stays here from round to round and is never sent; inner_states.h keeps it for a resume,
// with what the last round has added after its cuts. A round that comes to nothing (a NaN, train.on_nan: skip) may
// have spoiled both: forget().
//
// Memory: one parameter vector, one more where parts are cut, and the optimizer's state. Thread: one.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "common/config/run_config.h"
#include "common/params/layout.h"
#include "common/params/optimizer.h"
#include "common/params/partition.h"

namespace paceline {

class LocalSteps {
 public:
  // For parameters of this layout, whose tensors' traits count in the inner optimizer's steps.
  LocalSteps(const OptimizerSection& inner, const Layout& layout);

  // A round begins with these parameters, layout.size() floats, and with what the last one has added to what was cut.
  void begin(std::span<const float> parameters);
  // What the next mini-batch's gradient is to be computed at.
  std::span<const float> parameters() const { return parameters_; }
  // One step of the inner optimizer.
  void step(std::span<const float> gradient, double learning_rate);
  // Writes parameters at the begin, as they were given, minus those now, and buffers as they are now. Vectors of
  // equal length. But for what has been cut, which is left alone.
  void delta(std::span<const float> begin, std::span<float> delta) const;
  // The same of `part` alone, whose end is where the last one that was cut in this round began, or the vector's.
  void cut(Range part, std::span<const float> begin, std::span<float> delta);
  // Where the lowest part begins that has been cut in this round; layout.size(): none has.
  std::int64_t uncut() const { return uncut_; }

  // The inner optimizer's state is as it was at first, and nothing is kept of what was cut.
  void forget();
  // Between two rounds: the optimizer's state, whose vectors are in one block each; and what the next round begins with
  // of the last one, of as many floats as were cut, the vector's last. And back to them. Errors, nothing changed:
  // kInvalidArgument a state of another kind or size, or more floats than there are.
  OptimizerImage state() const { return optimizer_.image(); }
  std::vector<float> carried() const;
  [[nodiscard]] Status resume(OptimizerImage state, std::span<const float> carried = {});

 private:
  void delta_of(Range part, std::span<const float> begin, std::span<float> delta) const;
  OptimizerSection inner_;
  FactorRanges factors_;
  std::vector<float> parameters_;
  std::int64_t uncut_;
  std::vector<float> at_cut_;  // what parameters_ were, from uncut_ on; empty before the first
  OptimizerState optimizer_;
};

}  // namespace paceline
