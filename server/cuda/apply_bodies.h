// The kernels of a shard on a GPU (shard_on_gpu.h): the weighted sum of a clock's gradients, and an
// optimizer's step on the parameters, with the mean's last gradient in it, so that each float is read once.
// The arithmetic is that of the host's loops, to the bit (common/cuda/optimizer_bodies.h).
#pragma once

#include "common/cuda/optimizer_bodies.h"

namespace paceline::cuda {

struct BeginSum {
  float* sum;
  const float* gradient;
  float weight;

  PACELINE_HOST_DEVICE void operator()(int i) const { sum[i] = kernels::weighted(gradient[i], weight); }
};

struct AddToSum {
  float* sum;
  const float* gradient;
  float weight;

  PACELINE_HOST_DEVICE void operator()(int i) const {
    sum[i] = kernels::with_weighted(sum[i], gradient[i], weight);
  }
};

// What a step takes for the gradient: one as it came, or the mean whose last gradient it is.
struct AsItCame {
  const float* gradient;

  PACELINE_HOST_DEVICE float operator()(int i) const { return gradient[i]; }
};

struct AsMean {
  const float* sum;  // of the others; null: there are none
  const float* gradient;
  float weight;
  float share;

  PACELINE_HOST_DEVICE float operator()(int i) const {
    const float whole = sum == nullptr ? kernels::weighted(gradient[i], weight)
                                       : kernels::with_weighted(sum[i], gradient[i], weight);
    return kernels::scaled(whole, share);
  }
};

template <typename Element, typename Gradient>
struct StepInPlace {
  float* parameters;
  Gradient gradient;
  Element element;

  PACELINE_HOST_DEVICE void operator()(int i) const {
    parameters[i] = stepped(element, i, parameters[i], gradient(i));
  }
};

// Every body that is launched: X(type).
#define PACELINE_CUDA_STEP_BODIES(X, Element) \
  X(StepInPlace<Element, AsItCame>)           \
  X(StepInPlace<Element, AsMean>)
#define PACELINE_CUDA_APPLY_BODIES(X)           \
  X(BeginSum)                                   \
  X(AddToSum)                                   \
  PACELINE_CUDA_STEP_BODIES(X, SgdElement)      \
  PACELINE_CUDA_STEP_BODIES(X, MomentumElement) \
  PACELINE_CUDA_STEP_BODIES(X, AdamElement)     \
  PACELINE_CUDA_STEP_BODIES(X, TowardsElement)

}  // namespace paceline::cuda
