// What an optimizer's step makes of one parameter, as a GPU's kernels run it: the
// arithmetic of the host's loops, to the bit (common/params/element_steps.h), with the step's numbers beside
// it. Where its parameters and gradients lie, and what else a kernel does, its body says.
#pragma once

#include "common/params/element_steps.h"

namespace paceline::cuda {

// Each: to<kDecay>(i, parameter, gradient) is what becomes of parameter i; its state, where there is one, is
// changed.
struct SgdElement {
  float rate;
  kernels::WeightDecay decay;

  template <kernels::Decay kDecay>
  PACELINE_HOST_DEVICE float to(int, float parameter, float gradient) const {
    return kernels::sgd_step<kDecay>(parameter, gradient, rate, decay.weight);
  }
};

struct MomentumElement {
  float* velocity;
  kernels::MomentumStep step;
  kernels::WeightDecay decay;

  template <kernels::Decay kDecay>
  PACELINE_HOST_DEVICE float to(int i, float parameter, float gradient) const {
    return step.nesterov
               ? kernels::momentum_step<kDecay, true>(parameter, gradient, velocity[i], step, decay.weight)
               : kernels::momentum_step<kDecay, false>(parameter, gradient, velocity[i], step, decay.weight);
  }
};

struct AdamElement {
  float* first;
  float* second;
  kernels::AdamStep step;
  kernels::WeightDecay decay;

  template <kernels::Decay kDecay>
  PACELINE_HOST_DEVICE float to(int i, float parameter, float gradient) const {
    return kernels::adam_step<kDecay>(parameter, gradient, first[i], second[i], step, decay.weight);
  }
};

// A buffer's step (common/params/step_factors.h); there is no decay.
struct TowardsElement {
  float kept;
  float measured;
  kernels::WeightDecay decay{};

  template <kernels::Decay kDecay>
  PACELINE_HOST_DEVICE float to(int, float parameter, float gradient) const {
    return kernels::towards(parameter, gradient, kept, measured);
  }
};

template <typename Element>
PACELINE_HOST_DEVICE float stepped(const Element& element, int i, float parameter, float gradient) {
  using kernels::Decay;
  switch (element.decay.kind) {
    case Decay::kCoupled:
      return element.template to<Decay::kCoupled>(i, parameter, gradient);
    case Decay::kSign:
      return element.template to<Decay::kSign>(i, parameter, gradient);
    case Decay::kDecoupled:
      return element.template to<Decay::kDecoupled>(i, parameter, gradient);
    case Decay::kNone:
      break;
  }
  return element.template to<Decay::kNone>(i, parameter, gradient);
}

}  // namespace paceline::cuda
