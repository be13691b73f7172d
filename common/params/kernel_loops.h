// The loops of kernels.h, for the compiler to vectorise. Included by exactly one file for each instruction
// set; each gets a copy of its own.
//
// Everything here has internal linkage, and no standard library function is called: an inline function that
// two files share is kept once by the linker, and if that copy were the AVX-512 one, every other caller would
// run it on processors that lack it. (tests/unit/kernel_symbols_test.py holds the object files to that.)
//
// One loop for each optimizer and way to store, instantiated for each kind of weight decay so that no branch
// is left inside. `ivdep`: no iteration depends on another one, which holds for equal and for disjoint
// arrays; without it, equal ones would take the scalar path after a run-time overlap check.
#pragma once

#include <cstdint>

#ifdef __SSE2__
#include <immintrin.h>
#endif

#include "common/params/element_steps.h"
#include "common/params/kernel_tables.h"

namespace paceline::kernels {
namespace {

template <Decay kDecay>
void sgd_loop(const Piece& piece, float learning_rate, float weight) {
  const float* const in = piece.in;
  float* const out = piece.out;
  const float* const gradient = piece.gradient;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < piece.n; ++i) {
    out[i] = sgd_step<kDecay>(in[i], gradient[i], learning_rate, weight);
  }
}

// An exponent of all ones is what NaN and infinity have in common (IEEE 754). Bits, not isfinite(): the same
// answer under every floating-point option, and an integer loop that vectorises.
constexpr std::uint32_t kExponent = 0x7F800000u;

inline bool is_non_finite(float value) {
  return (__builtin_bit_cast(std::uint32_t, value) & kExponent) == kExponent;
}

template <Decay kDecay>
bool sgd_and_check_loop(const Piece& piece, float learning_rate, float weight) {
  const float* const in = piece.in;
  float* const out = piece.out;
  const float* const gradient = piece.gradient;
  std::uint32_t found = 0;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < piece.n; ++i) {
    const float g = gradient[i];
    found |= static_cast<std::uint32_t>(is_non_finite(g));
    out[i] = sgd_step<kDecay>(in[i], g, learning_rate, weight);
  }
  return found != 0;
}

template <Decay kDecay, bool kNesterov>
void momentum_loop(const Piece& piece, float* velocity, const MomentumStep& step, float weight) {
  const float* const in = piece.in;
  float* const out = piece.out;
  const float* const gradient = piece.gradient;
  const MomentumStep s = step;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < piece.n; ++i) {
    out[i] = momentum_step<kDecay, kNesterov>(in[i], gradient[i], velocity[i], s, weight);
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
    out[i] = adam_step<kDecay>(in[i], gradient[i], first[i], second[i], s, weight);
  }
}

template <Decay kDecay>
void over_root_loop(const Piece& piece, float* square, const SquareStep& step, float weight) {
  const float* const in = piece.in;
  float* const out = piece.out;
  const float* const gradient = piece.gradient;
  const SquareStep s = step;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < piece.n; ++i) {
    out[i] = over_root_step<kDecay>(in[i], gradient[i], square[i], s, weight);
  }
}

template <Decay kDecay>
void adadelta_loop(const Piece& piece, float* square, float* step_square, const SquareStep& step,
                   float weight) {
  const float* const in = piece.in;
  float* const out = piece.out;
  const float* const gradient = piece.gradient;
  const SquareStep s = step;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < piece.n; ++i) {
    out[i] = adadelta_step<kDecay>(in[i], gradient[i], square[i], step_square[i], s, weight);
  }
}

#ifdef __SSE2__
// The compiler writes no store past the caches by itself, so what does is a loop over the widest registers
// that it may use, a cache line at a time: a part of one would have to be read first.
constexpr std::int64_t kLine = 64 / sizeof(float);
#ifdef __AVX__
constexpr std::int64_t kWidth = 8;
typedef float Floats __attribute__((vector_size(32)));
inline Floats load(const float* from) { return _mm256_loadu_ps(from); }
inline void store(float* to, Floats values) { _mm256_storeu_ps(to, values); }
inline void store_past_cache(float* to, Floats values) { _mm256_stream_ps(to, values); }
template <>
inline Floats root(Floats values) {
  return _mm256_sqrt_ps(values);
}
#else
constexpr std::int64_t kWidth = 4;
typedef float Floats __attribute__((vector_size(16)));
inline Floats load(const float* from) { return _mm_loadu_ps(from); }
inline void store(float* to, Floats values) { _mm_storeu_ps(to, values); }
inline void store_past_cache(float* to, Floats values) { _mm_stream_ps(to, values); }
template <>
inline Floats root(Floats values) {
  return _mm_sqrt_ps(values);
}
#endif
typedef std::uint32_t Bits __attribute__((vector_size(sizeof(Floats))));

inline bool begins_line(const float* at) { return (__builtin_bit_cast(std::uintptr_t, at) & 63U) == 0; }

// Whole cache lines of out[0, n) become wide(i), i the first of kWidth elements; what lies before and after
// them is left to alone(begin, end).
template <typename Alone, typename Wide>
inline void write_past_cache(float* out, std::int64_t n, const Alone& alone, const Wide& wide) {
  std::int64_t i = 0;
  while (i < n && !begins_line(out + i)) ++i;
  alone(0, i);
  for (; i + kLine <= n; i += kLine) {
    for (std::int64_t k = i; k < i + kLine; k += kWidth) store_past_cache(out + k, wide(k));
  }
  alone(i, n);
  _mm_sfence();  // such stores are ordered by nothing else: whoever is told of them next must see them
}

inline Piece part(const Piece& piece, std::int64_t begin, std::int64_t end) {
  return {piece.in + begin, piece.out + begin, piece.gradient + begin, end - begin};
}

template <Decay kDecay>
bool sgd_past_cache_loop(const Piece& piece, float learning_rate, float weight) {
  const float* const in = piece.in;
  const float* const gradient = piece.gradient;
  bool found = false;
  Bits seen{};  // all ones where one was
  write_past_cache(
      piece.out, piece.n,
      [&](std::int64_t begin, std::int64_t end) {
        found |= sgd_and_check_loop<kDecay>(part(piece, begin, end), learning_rate, weight);
      },
      [&](std::int64_t i) {
        const Floats g = load(gradient + i);
        seen |= reinterpret_cast<Bits>((reinterpret_cast<Bits>(g) & kExponent) == kExponent);
        return sgd_step<kDecay>(load(in + i), g, learning_rate, weight);
      });
  for (std::int64_t k = 0; k < kWidth; ++k) found |= seen[k] != 0;
  return found;
}

template <Decay kDecay, bool kNesterov>
void momentum_past_cache_loop(const Piece& piece, float* velocity, const MomentumStep& step, float weight) {
  const float* const in = piece.in;
  const float* const gradient = piece.gradient;
  const MomentumStep s = step;
  write_past_cache(
      piece.out, piece.n,
      [&](std::int64_t begin, std::int64_t end) {
        momentum_loop<kDecay, kNesterov>(part(piece, begin, end), velocity + begin, step, weight);
      },
      [&](std::int64_t i) {
        Floats u = load(velocity + i);
        const Floats to = momentum_step<kDecay, kNesterov>(load(in + i), load(gradient + i), u, s, weight);
        store(velocity + i, u);
        return to;
      });
}

template <Decay kDecay>
void adam_past_cache_loop(const Piece& piece, float* first, float* second, const AdamStep& step,
                          float weight) {
  const float* const in = piece.in;
  const float* const gradient = piece.gradient;
  const AdamStep s = step;
  write_past_cache(
      piece.out, piece.n,
      [&](std::int64_t begin, std::int64_t end) {
        adam_loop<kDecay>(part(piece, begin, end), first + begin, second + begin, step, weight);
      },
      [&](std::int64_t i) {
        Floats m = load(first + i);
        Floats v = load(second + i);
        const Floats to = adam_step<kDecay>(load(in + i), load(gradient + i), m, v, s, weight);
        store(first + i, m);
        store(second + i, v);
        return to;
      });
}

void copy_past_cache(float* out, const float* in, std::int64_t n) {
  write_past_cache(
      out, n,
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) out[i] = in[i];
      },
      [&](std::int64_t i) { return load(in + i); });
}
#else
template <Decay kDecay>
bool sgd_past_cache_loop(const Piece& piece, float learning_rate, float weight) {
  return sgd_and_check_loop<kDecay>(piece, learning_rate, weight);
}

template <Decay kDecay, bool kNesterov>
void momentum_past_cache_loop(const Piece& piece, float* velocity, const MomentumStep& step, float weight) {
  momentum_loop<kDecay, kNesterov>(piece, velocity, step, weight);
}

template <Decay kDecay>
void adam_past_cache_loop(const Piece& piece, float* first, float* second, const AdamStep& step,
                          float weight) {
  adam_loop<kDecay>(piece, first, second, step, weight);
}

void copy_past_cache(float* out, const float* in, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = in[i];
}
#endif

// loop.operator()<kind>(): the branch is taken once, outside the loop.
template <typename Loop>
inline auto by_decay(Decay kind, const Loop& loop) {
  switch (kind) {
    case Decay::kCoupled:
      return loop.template operator()<Decay::kCoupled>();
    case Decay::kSign:
      return loop.template operator()<Decay::kSign>();
    case Decay::kDecoupled:
      return loop.template operator()<Decay::kDecoupled>();
    case Decay::kNone:
      break;
  }
  return loop.template operator()<Decay::kNone>();
}

void sgd(const Piece& piece, float learning_rate, WeightDecay decay) {
  by_decay(decay.kind, [&]<Decay kDecay>() { sgd_loop<kDecay>(piece, learning_rate, decay.weight); });
}

bool sgd_and_check(const Piece& piece, float learning_rate, WeightDecay decay) {
  return by_decay(decay.kind, [&]<Decay kDecay>() {
    return sgd_and_check_loop<kDecay>(piece, learning_rate, decay.weight);
  });
}

bool sgd_past_cache(const Piece& piece, float learning_rate, WeightDecay decay) {
  return by_decay(decay.kind, [&]<Decay kDecay>() {
    return sgd_past_cache_loop<kDecay>(piece, learning_rate, decay.weight);
  });
}

void momentum(const Piece& piece, float* velocity, const MomentumStep& step, WeightDecay decay) {
  by_decay(decay.kind, [&]<Decay kDecay>() {
    step.nesterov ? momentum_loop<kDecay, true>(piece, velocity, step, decay.weight)
                  : momentum_loop<kDecay, false>(piece, velocity, step, decay.weight);
  });
}

void momentum_past_cache(const Piece& piece, float* velocity, const MomentumStep& step, WeightDecay decay) {
  by_decay(decay.kind, [&]<Decay kDecay>() {
    step.nesterov ? momentum_past_cache_loop<kDecay, true>(piece, velocity, step, decay.weight)
                  : momentum_past_cache_loop<kDecay, false>(piece, velocity, step, decay.weight);
  });
}

void adam(const Piece& piece, float* first, float* second, const AdamStep& step, WeightDecay decay) {
  by_decay(decay.kind, [&]<Decay kDecay>() { adam_loop<kDecay>(piece, first, second, step, decay.weight); });
}

void adam_past_cache(const Piece& piece, float* first, float* second, const AdamStep& step,
                     WeightDecay decay) {
  by_decay(decay.kind,
           [&]<Decay kDecay>() { adam_past_cache_loop<kDecay>(piece, first, second, step, decay.weight); });
}

void over_root(const Piece& piece, float* square, const SquareStep& step, WeightDecay decay) {
  by_decay(decay.kind, [&]<Decay kDecay>() { over_root_loop<kDecay>(piece, square, step, decay.weight); });
}

void adadelta(const Piece& piece, float* square, float* step_square, const SquareStep& step,
              WeightDecay decay) {
  by_decay(decay.kind,
           [&]<Decay kDecay>() { adadelta_loop<kDecay>(piece, square, step_square, step, decay.weight); });
}

void moments(float* first, float* second, const float* gradient, const AdamStep& step, std::int64_t n) {
  const AdamStep s = step;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) take_into_moments(gradient[i], first[i], second[i], s);
}

void move_by_moments(float* out, const float* in, const float* first, const float* second,
                     const AdamStep& step, float weight, std::int64_t n) {
  const AdamStep s = step;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    out[i] = moved<Decay::kDecoupled>(in[i], step_of_moments(first[i], second[i], s), weight);
  }
}

// Adds value(i)^2, i in [0, n), to lane i mod kLanes.
template <typename Value>
inline void add_squares_of(double* lanes, std::int64_t n, const Value& value) {
  double sums[kLanes];
  for (std::int64_t k = 0; k < kLanes; ++k) sums[k] = lanes[k];
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    float values[kLanes];
    for (std::int64_t k = 0; k < kLanes; ++k) values[k] = value(i + k);
    for (std::int64_t k = 0; k < kLanes; ++k) {
      const double wide = values[k];
      sums[k] += wide * wide;
    }
  }
  for (std::int64_t k = 0; i + k < n; ++k) {
    const double wide = value(i + k);
    sums[k] += wide * wide;
  }
  for (std::int64_t k = 0; k < kLanes; ++k) lanes[k] = sums[k];
}

void add_squares(double* lanes, const float* values, std::int64_t n) {
  add_squares_of(lanes, n, [values](std::int64_t i) { return values[i]; });
}

void add_direction_squares(double* lanes, const float* parameters, const float* first, const float* second,
                           const AdamStep& step, float weight, std::int64_t n) {
  const AdamStep s = step;
  add_squares_of(lanes, n, [&](std::int64_t i) {
    return step_of_moments(first[i], second[i], s) + weight * parameters[i];
  });
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
    const float m = normal_or_zero(s.decay * mean_square[i] + s.one_minus_decay * (g * g));
    mean_square[i] = m;
    out[i] = g + s.lambda / __builtin_sqrtf(m + s.epsilon) * g * (now[i] - backup[i]) * g;
  }
}

void begin_sum(float* sum, const float* gradient, float weight, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) sum[i] = weighted(gradient[i], weight);
}

void add_weighted(float* sum, const float* gradient, float weight, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) sum[i] = with_weighted(sum[i], gradient[i], weight);
}

void scale(float* values, float factor, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) values[i] = scaled(values[i], factor);
}

void subtract(float* difference, const float* minuend, const float* subtrahend, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) difference[i] = minuend[i] - subtrahend[i];
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
          sgd_and_check,
          sgd_past_cache,
          momentum,
          momentum_past_cache,
          adam,
          adam_past_cache,
          over_root,
          adadelta,
          moments,
          add_direction_squares,
          move_by_moments,
          add_squares,
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
