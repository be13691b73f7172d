// The kernels of a thread cache on a GPU (device_vectors.h): an optimizer's steps on whole vectors, fused
// with keeping what they changed. The arithmetic is that of the host's loops, to the bit
// (common/cuda/optimizer_bodies.h). Bodies as in bodies.h.
#pragma once

#include "common/cuda/optimizer_bodies.h"

namespace paceline::cuda {

// parameters[i] becomes what a step of SGD makes of it.
struct SgdInPlace {
  float* parameters;
  const float* gradient;
  SgdElement step;

  PACELINE_HOST_DEVICE void operator()(int i) const {
    parameters[i] = stepped(step, i, parameters[i], gradient[i]);
  }
};

// difference[i] = what such a step changes. Without weight decay it does not depend on the parameters, and is
// a step from 0. May be made in the gradient's place.
struct SgdDifference {
  const float* parameters;
  const float* gradient;
  float* difference;
  SgdElement step;

  PACELINE_HOST_DEVICE void operator()(int i) const {
    const bool decays = step.decay.kind != kernels::Decay::kNone;
    const float from = decays ? parameters[i] : 0.0F;
    const float to = stepped(step, i, from, gradient[i]);
    difference[i] = decays ? to - from : to;
  }
};

struct AddDifference {
  float* parameters;
  const float* difference;

  PACELINE_HOST_DEVICE void operator()(int i) const { parameters[i] += difference[i]; }
};

// What a step with a state changes, kept as `scale` of it, and added to the parameters as it will be added
// again. May be made in the gradient's place.
template <typename Element>
struct KeptStep {
  float* parameters;
  const float* gradient;
  float* difference;
  float scale;
  Element step;

  PACELINE_HOST_DEVICE void operator()(int i) const {
    const float from = parameters[i];
    float change = stepped(step, i, from, gradient[i]) - from;
    if (scale != 1.0F) change *= scale;
    difference[i] = change;
    parameters[i] = from + change;
  }
};
using MomentumKept = KeptStep<MomentumElement>;
using AdamKept = KeptStep<AdamElement>;

// As PACELINE_CUDA_BODIES (bodies.h).
#define PACELINE_CUDA_OWN_UPDATE_BODIES(X) \
  X(SgdInPlace)                            \
  X(SgdDifference)                         \
  X(AddDifference)                         \
  X(MomentumKept)                          \
  X(AdamKept)

}  // namespace paceline::cuda
