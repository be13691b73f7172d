// One loop for each optimizer, instantiated for each kind of weight decay so that no branch is left inside.
// `ivdep`: no iteration depends on another one, also where out == in.
#include "common/params/optimizer_kernels.h"

#include <cmath>

namespace paceline::kernels {
namespace {

// The gradient with coupled decay in it.
template <Decay kDecay>
inline float decayed_gradient(float gradient, float parameter, float weight) {
  if constexpr (kDecay == Decay::kCoupled) return gradient + weight * parameter;
  return gradient;
}

// The parameter after a step, decoupled decay included.
template <Decay kDecay>
inline float moved(float parameter, float step, float weight) {
  if constexpr (kDecay == Decay::kDecoupled) return parameter - (step + weight * parameter);
  return parameter - step;
}

template <Decay kDecay>
void sgd_loop(const Piece& piece, float learning_rate, float weight) {
  const float* const in = piece.in;
  float* const out = piece.out;
  const float* const gradient = piece.gradient;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < piece.n; ++i) {
    const float p = in[i];
    out[i] = moved<kDecay>(p, learning_rate * decayed_gradient<kDecay>(gradient[i], p, weight), weight);
  }
}

template <Decay kDecay, bool kNesterov>
void momentum_loop(const Piece& piece, float* velocity, const MomentumStep& step, float weight) {
  const float* const in = piece.in;
  float* const out = piece.out;
  const float* const gradient = piece.gradient;
  const float rate = step.learning_rate;
  const float mu = step.momentum;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < piece.n; ++i) {
    const float p = in[i];
    const float g = decayed_gradient<kDecay>(gradient[i], p, weight);
    const float u = mu * velocity[i] + g;
    velocity[i] = u;
    out[i] = moved<kDecay>(p, rate * (kNesterov ? g + mu * u : u), weight);
  }
}

template <Decay kDecay>
void adam_loop(const Piece& piece, float* first, float* second, const AdamStep& step, float weight) {
  const float* const in = piece.in;
  float* const out = piece.out;
  const float* const gradient = piece.gradient;
  const AdamStep s = step;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < piece.n; ++i) {
    const float p = in[i];
    const float g = decayed_gradient<kDecay>(gradient[i], p, weight);
    const float m = s.beta1 * first[i] + s.one_minus_beta1 * g;
    const float v = s.beta2 * second[i] + s.one_minus_beta2 * (g * g);
    first[i] = m;
    second[i] = v;
    out[i] = moved<kDecay>(p, s.rate * (m / (std::sqrt(v) * s.root_scale + s.epsilon)), weight);
  }
}

template <bool kNesterov>
void momentum_by_decay(const Piece& piece, float* velocity, const MomentumStep& step, WeightDecay decay) {
  switch (decay.kind) {
    case Decay::kNone:
      return momentum_loop<Decay::kNone, kNesterov>(piece, velocity, step, decay.weight);
    case Decay::kCoupled:
      return momentum_loop<Decay::kCoupled, kNesterov>(piece, velocity, step, decay.weight);
    case Decay::kDecoupled:
      return momentum_loop<Decay::kDecoupled, kNesterov>(piece, velocity, step, decay.weight);
  }
}

}  // namespace

void sgd(const Piece& piece, float learning_rate, WeightDecay decay) {
  switch (decay.kind) {
    case Decay::kNone:
      return sgd_loop<Decay::kNone>(piece, learning_rate, decay.weight);
    case Decay::kCoupled:
      return sgd_loop<Decay::kCoupled>(piece, learning_rate, decay.weight);
    case Decay::kDecoupled:
      return sgd_loop<Decay::kDecoupled>(piece, learning_rate, decay.weight);
  }
}

void momentum(const Piece& piece, float* velocity, const MomentumStep& step, WeightDecay decay) {
  return step.nesterov ? momentum_by_decay<true>(piece, velocity, step, decay)
                       : momentum_by_decay<false>(piece, velocity, step, decay);
}

void adam(const Piece& piece, float* first, float* second, const AdamStep& step, WeightDecay decay) {
  switch (decay.kind) {
    case Decay::kNone:
      return adam_loop<Decay::kNone>(piece, first, second, step, decay.weight);
    case Decay::kCoupled:
      return adam_loop<Decay::kCoupled>(piece, first, second, step, decay.weight);
    case Decay::kDecoupled:
      return adam_loop<Decay::kDecoupled>(piece, first, second, step, decay.weight);
  }
}

}  // namespace paceline::kernels
