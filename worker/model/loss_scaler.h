// LossScaler: dynamic loss scaling for float16, which ends at 65,504 and below 6e-8 is 0 (Micikevicius et al., "Mixed
// precision training", ICLR 2018, section 3.2; factors and interval are those of PyTorch's GradScaler). The loss is
// multiplied by the scale, so that small differences are not lost; gradients are divided by it before anybody sees
// them.
//
//   step overflows (a gradient is not finite)   scale x 0.5; the step does not count
//   2,000 steps without one                     scale x 2; of an accumulated step each part counts
//
// From 65,536 on: overflow 32,768, overflow 16,384, then 2,000 good steps: 32,768.
//
// A new scale is a guess, the first one and each doubled one. Until a step stood it, and with accumulation as many as a
// gradient has parts, who computes makes a step that overflows again with half of it. So looking for a scale costs a
// run no iteration, however many workers look, and though the parts of a gradient stand different scales.
//
// Scales are powers of two, so that dividing loses nothing; at least 1, and at most 2^24, which float32 gradients
// stand.
//
// Pure. Thread: the training thread whose gradients it scales.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/loss_scale.h"

namespace paceline {

class LossScaler {
 public:
  static constexpr float kFirst = 65536.0F;
  static constexpr float kLargest = LossScale::kLargest;
  static constexpr std::int64_t kGrowthInterval = LossScale::kGrowthInterval;

  float scale() const { return scale_; }
  // All that it goes on from.
  LossScale state() const { return {scale_, good_}; }
  // `state`: one that is there, of a worker whose steps these go on with.
  void go_on(const LossScale& state) {
    scale_ = static_cast<float>(state.scale);
    good_ = state.good_steps;
  }
  // A gradient is the sum of so many steps, at least 1: 1 where nobody says.
  void steps_of_a_gradient(std::int64_t steps) { steps_of_a_gradient_ = steps; }
  // Too few steps with scale() were good yet, and a smaller one is there to be tried.
  bool is_guess() const { return good_ < steps_of_a_gradient_ && scale_ > 1.0F; }

  // A step with scale() is over.
  void step(bool overflowed) {
    if (overflowed) {
      scale_ = std::max(1.0F, scale_ * 0.5F);
      good_ = 0;
    } else if (++good_ == kGrowthInterval) {
      scale_ = std::min(kLargest, scale_ * 2.0F);
      good_ = 0;
    }
  }

 private:
  float scale_ = kFirst;
  std::int64_t good_ = 0;  // steps since it changed
  std::int64_t steps_of_a_gradient_ = 1;
};

}  // namespace paceline
