// Delay compensation: a stale gradient is corrected, to first order, for what has happened to the parameters
// since it was computed. Zheng, Meng, Wang, Chen, Yu, Ma and Liu, "Asynchronous stochastic gradient descent
// with delay compensation" (DC-ASGD), ICML 2017.
//
// With g the gradient, w the parameters it is applied to and b (the backup) those it was computed with, all
// element by element:
//   constant    g' = g + lambda g g (w - b)
//   adaptive    m  = decay m + (1 - decay) g g;     g' = g + lambda / sqrt(m + 1e-7) g g (w - b)
// g g stands for the diagonal of the loss's second derivative, so g' is about the gradient at w. m is one
// vector for all workers, fed by every gradient in the order of application.
//
//   lambda 0.5, g 2, w 1.5, b 1:  g' = 2 + 0.5 * 2 * 0.5 * 2 = 3
//
// The second g comes last: g g is infinite from 1.8e19 on, and infinite times no difference would be NaN. (An
// element of m that has become infinite stays so: its gradients are no longer compensated.)
//
// As with the optimizers (optimizer.h) each element is computed from its own index alone, so that any cut and
// any instruction set gives the same bits.
//
// A buffer (layout.h) has no gradient: what was measured stays as it came.
//
// Thread: one at a time, but apply() of pieces that share no block of m may go on in several at once. Memory:
// one float for each parameter under `adaptive`; while an image of it lives at most as much again.
#pragma once

#include <cstdint>
#include <span>

#include "common/config/optimizer_section.h"
#include "common/params/kernels.h"
#include "common/params/state_vector.h"
#include "common/params/step_factors.h"
#include "common/status.h"

namespace paceline {

class DelayCompensation {
 public:
  // For `size` parameters, m in blocks of `block_floats`. size >= 0, block_floats >= 1. `factors`: the
  // optimizer's of the same range.
  DelayCompensation(const CompensationSection& settings, std::int64_t size, std::int64_t block_floats,
                    FactorRanges factors = {});

  // out = what becomes of a piece of a gradient that begins at element `offset` of the range. All have equal
  // lengths; `out` is apart from the others. Each gradient's pieces cover the range once.
  void apply(std::int64_t offset, std::span<const float> gradient, std::span<const float> now,
             std::span<const float> backup, std::span<float> out);

  // m, shared (state_vector.h); empty under `constant`.
  const BlockRange& image() const { return mean_square_.image(); }
  // Goes on from there. It is cut into blocks as this one's m is. Errors: kInvalidArgument another size.
  [[nodiscard]] Status restore(BlockRange mean_square);

 private:
  void compensate(std::int64_t offset, const kernels::Stale& stale);

  CompensationSection settings_;
  FactorRanges factors_;
  StateVector mean_square_;  // adaptive
};

}  // namespace paceline
