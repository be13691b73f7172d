// The loops of kernels.h, for the compiler to vectorise. Included by exactly one file for each instruction
// set; each gets a copy of its own.
//
// Everything here has internal linkage, and no standard library function is called: an inline function that
// two files share is kept once by the linker, and if that copy were the AVX-512 one, every other caller would
// run it on processors that lack it. (tests/unit/kernel_symbols_test.py holds the object files to that.)
//
// One loop for each optimizer, instantiated for each kind of weight decay so that no branch is left inside.
// `ivdep`: no iteration depends on another one, which holds for equal and for disjoint arrays; without it,
// equal ones would take the scalar path behind a run-time overlap check.
#pragma once

#include <cstdint>

#ifdef __SSE2__
#include <immintrin.h>
#endif

#include "common/params/kernel_tables.h"

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
    out[i] = moved<kDecay>(p, s.rate * (m / (__builtin_sqrtf(v) * s.root_scale + s.epsilon)), weight);
  }
}

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

void compensate(const Stale& stale, float lambda) {
  const float* const gradient = stale.gradient;
  const float* const now = stale.now;
  const float* const backup = stale.backup;
  float* const out = stale.out;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < stale.n; ++i) {
    const float g = gradient[i];
    out[i] = g + lambda * g * (now[i] - backup[i]) * g;
  }
}

void compensate_adaptive(const Stale& stale, float* mean_square, const CompensationStep& step) {
  const float* const gradient = stale.gradient;
  const float* const now = stale.now;
  const float* const backup = stale.backup;
  float* const out = stale.out;
  const CompensationStep s = step;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < stale.n; ++i) {
    const float g = gradient[i];
    const float m = s.decay * mean_square[i] + s.one_minus_decay * (g * g);
    mean_square[i] = m;
    out[i] = g + s.lambda / __builtin_sqrtf(m + s.epsilon) * g * (now[i] - backup[i]) * g;
  }
}

void begin_sum(float* sum, const float* gradient, float weight, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) sum[i] = weight * gradient[i];
}

void add_weighted(float* sum, const float* gradient, float weight, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) sum[i] = sum[i] + weight * gradient[i];
}

void scale(float* values, float factor, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) values[i] = values[i] * factor;
}

void subtract(float* difference, const float* minuend, const float* subtrahend, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) difference[i] = minuend[i] - subtrahend[i];
}

// A whole cache line at a time, or what lies in it would have to be read first.
#ifdef __SSE2__
constexpr std::int64_t kLine = 64 / sizeof(float);

inline void write_line_past_cache(float* out, const float* in) {
#ifdef __AVX__
  for (int i = 0; i < kLine; i += 8) _mm256_stream_ps(out + i, _mm256_loadu_ps(in + i));
#else
  for (int i = 0; i < kLine; i += 4) _mm_stream_ps(out + i, _mm_loadu_ps(in + i));
#endif
}

void copy_past_cache(float* out, const float* in, std::int64_t n) {
  std::int64_t i = 0;
  for (; i < n && (__builtin_bit_cast(std::uintptr_t, out + i) & 63U) != 0; ++i) out[i] = in[i];
  for (; i + kLine <= n; i += kLine) write_line_past_cache(out + i, in + i);
  for (; i < n; ++i) out[i] = in[i];
  _mm_sfence();  // such stores are ordered by nothing else: whoever is told of them next must see them
}
#else
void copy_past_cache(float* out, const float* in, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = in[i];
}
#endif

// An exponent of all ones is what NaN and infinity have in common (IEEE 754). Bits, not isfinite(): the same
// answer under every floating-point option, and an integer loop that vectorises.
inline bool is_non_finite(float value) {
  constexpr std::uint32_t kExponent = 0x7F800000u;
  return (__builtin_bit_cast(std::uint32_t, value) & kExponent) == kExponent;
}

std::int64_t first_non_finite(const float* values, std::int64_t n) {
  constexpr std::int64_t kChunk = 1024;  // looked at whole, without a branch for each value
  for (std::int64_t begin = 0; begin < n; begin += kChunk) {
    const std::int64_t end = n - begin < kChunk ? n : begin + kChunk;
    std::uint32_t found = 0;
    for (std::int64_t i = begin; i < end; ++i) found |= static_cast<std::uint32_t>(is_non_finite(values[i]));
    if (found == 0) continue;
    for (std::int64_t i = begin; i < end; ++i) {
      if (is_non_finite(values[i])) return i;
    }
  }
  return n;
}

constexpr Kernels table(InstructionSet set, const char* name) {
  return {set,
          name,
          sgd,
          momentum,
          adam,
          compensate,
          compensate_adaptive,
          begin_sum,
          add_weighted,
          scale,
          subtract,
          copy_past_cache,
          first_non_finite};
}

}  // namespace
}  // namespace paceline::kernels
