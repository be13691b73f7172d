// What an optimizer's step makes of one element: the arithmetic of kernel_loops.h, whose vectors of a
// processor run it, and of a GPU's kernels (common/cuda). Both give the same bits where the compiler is
// told not to contract a product and a sum into one operation.
//
// Number: float, or a vector of them in the compiler's own notation, each element of which becomes what the
// float would.
//
// Internal linkage, for the reason that kernel_loops.h gives: each file has a copy of its own, for its own
// instruction set.
#pragma once

#include "common/host_device.h"
#include "common/params/kernels.h"

namespace paceline::kernels {
namespace {

// Rounded as IEEE 754 says. Of a vector: kernel_loops.h, where its width is known.
template <typename Number>
PACELINE_HOST_DEVICE inline Number root(Number value);

// Of a library's functions the compiler's own is no call (kernel_loops.h).
template <>
PACELINE_HOST_DEVICE inline float root(float value) {
#ifdef __CUDA_ARCH__
  return __fsqrt_rn(value);
#else
  return __builtin_sqrtf(value);
#endif
}

// A state that only decays, as of a unit that never fires again, comes to denormal numbers and stays at the
// least of them for good, and a processor takes a hundred times as long with these: it is 0 from there on.
template <typename Number>
PACELINE_HOST_DEVICE inline Number normal_or_zero(Number value) {
  constexpr float kLeastNormal = 0x1.0p-126F;
  return value < kLeastNormal && value > -kLeastNormal ? Number{} : value;
}

// A buffer's step towards what was measured (step_factors.h). `kept` and `measured` are parts of a whole.
template <typename Number>
PACELINE_HOST_DEVICE inline Number towards(Number buffer, Number measurement, float kept, float measured) {
  return normal_or_zero(kept * buffer + measured * measurement);
}

// The gradient with coupled decay in it, or with that of the absolute value.
template <Decay kDecay, typename Number>
PACELINE_HOST_DEVICE inline Number decayed_gradient(Number gradient, Number parameter, float weight) {
  if constexpr (kDecay == Decay::kCoupled) return gradient + weight * parameter;
  if constexpr (kDecay == Decay::kSign) {
    const Number none = Number{};
    const Number some = none + weight;
    return gradient + ((parameter > 0.0F ? some : none) - (parameter < 0.0F ? some : none));
  }
  return gradient;
}

// The parameter after a step, decoupled decay included.
template <Decay kDecay, typename Number>
PACELINE_HOST_DEVICE inline Number moved(Number parameter, Number step, float weight) {
  if constexpr (kDecay == Decay::kDecoupled) return parameter - (step + weight * parameter);
  return parameter - step;
}

template <Decay kDecay, typename Number>
PACELINE_HOST_DEVICE inline Number sgd_step(Number parameter, Number gradient, float learning_rate,
                                            float weight) {
  const Number step = learning_rate * decayed_gradient<kDecay>(gradient, parameter, weight);
  return moved<kDecay>(parameter, step, weight);
}

template <Decay kDecay, bool kNesterov, typename Number>
PACELINE_HOST_DEVICE inline Number momentum_step(Number parameter, Number gradient, Number& velocity,
                                                 const MomentumStep& s, float weight) {
  const Number g = s.into * decayed_gradient<kDecay>(gradient, parameter, weight);
  const Number u = normal_or_zero(s.momentum * velocity + g);
  velocity = u;
  const Number step = s.learning_rate * (kNesterov ? g + s.momentum * u : u);
  return moved<kDecay>(parameter, step, weight);
}

// Adam's and LAMB's means of gradients and of their squares.
template <typename Number>
PACELINE_HOST_DEVICE inline void take_into_moments(Number g, Number& first, Number& second,
                                                   const AdamStep& s) {
  first = normal_or_zero(s.beta1 * first + s.one_minus_beta1 * g);
  second = normal_or_zero(s.beta2 * second + s.one_minus_beta2 * (g * g));
}

template <typename Number>
PACELINE_HOST_DEVICE inline Number step_of_moments(Number first, Number second, const AdamStep& s) {
  return s.rate * (first / (root(second) * s.root_scale + s.epsilon));
}

template <Decay kDecay, typename Number>
PACELINE_HOST_DEVICE inline Number adam_step(Number parameter, Number gradient, Number& first, Number& second,
                                             const AdamStep& s, float weight) {
  take_into_moments(decayed_gradient<kDecay>(gradient, parameter, weight), first, second, s);
  return moved<kDecay>(parameter, step_of_moments(first, second, s), weight);
}

template <Decay kDecay, typename Number>
PACELINE_HOST_DEVICE inline Number over_root_step(Number parameter, Number gradient, Number& square,
                                                  const SquareStep& s, float weight) {
  const Number g = decayed_gradient<kDecay>(gradient, parameter, weight);
  const Number h = normal_or_zero(s.keep * square + s.add * (g * g));
  square = h;
  const Number step = s.rate * (g / (root(h) + s.epsilon));
  return moved<kDecay>(parameter, step, weight);
}

template <Decay kDecay, typename Number>
PACELINE_HOST_DEVICE inline Number adadelta_step(Number parameter, Number gradient, Number& square,
                                                 Number& step_square, const SquareStep& s, float weight) {
  const Number g = decayed_gradient<kDecay>(gradient, parameter, weight);
  const Number h = normal_or_zero(s.keep * square + s.add * (g * g));
  square = h;
  const Number u = g * root((step_square + s.epsilon) / (h + s.epsilon));
  step_square = normal_or_zero(s.keep * step_square + s.add * (u * u));
  return moved<kDecay>(parameter, s.rate * u, weight);
}

// The weighted mean of several gradients (vector_ops.h): the first one's part, the sum with another one's,
// and the sum as the mean.
template <typename Number>
PACELINE_HOST_DEVICE inline Number weighted(Number gradient, float weight) {
  return weight * gradient;
}
template <typename Number>
PACELINE_HOST_DEVICE inline Number with_weighted(Number sum, Number gradient, float weight) {
  return sum + weight * gradient;
}
template <typename Number>
PACELINE_HOST_DEVICE inline Number scaled(Number value, float factor) {
  return value * factor;
}

}  // namespace
}  // namespace paceline::kernels
