// The kernels of a thread cache on a GPU (device_vectors.h): an optimizer's steps on whole vectors, fused
// with keeping what they changed. The arithmetic is that of the host's loops, to the bit
// (common/cuda/optimizer_bodies.h). Bodies as in bodies.h.
#pragma once

#include "common/cuda/optimizer_bodies.h"

namespace paceline::cuda {

// parameters[i] becomes what a step without a state makes of it.
template <typename Element>
struct StepInPlace {
  float* parameters;
  const float* gradient;
  Element step;

  PACELINE_HOST_DEVICE void operator()(int i) const {
    parameters[i] = stepped(step, i, parameters[i], gradient[i]);
  }
};
using SgdInPlace = StepInPlace<SgdElement>;
using TowardsInPlace = StepInPlace<TowardsElement>;

// difference[i] = what such a step changes. May be made in the gradient's place.
template <typename Element>
struct StepDifference {
  const float* parameters;
  const float* gradient;
  float* difference;
  Element step;
  bool from_zero;  // it does not depend on the parameters, and is a step from 0

  PACELINE_HOST_DEVICE void operator()(int i) const {
    const float from = from_zero ? 0.0F : parameters[i];
    const float to = stepped(step, i, from, gradient[i]);
    difference[i] = from_zero ? to : to - from;
  }
};
using SgdDifference = StepDifference<SgdElement>;
using TowardsDifference = StepDifference<TowardsElement>;

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
using TowardsKept = KeptStep<TowardsElement>;

// As PACELINE_CUDA_BODIES (bodies.h).
#define PACELINE_CUDA_OWN_UPDATE_BODIES(X) \
  X(SgdInPlace)                            \
  X(SgdDifference)                         \
  X(TowardsInPlace)                        \
  X(TowardsDifference)                     \
  X(TowardsKept)                           \
  X(AddDifference)                         \
  X(MomentumKept)                          \
  X(AdamKept)

}  // namespace paceline::cuda
