// The loops over every parameter (the optimizers of optimizer.h, the flat-vector operations of vector_ops.h),
// compiled once for each instruction set and chosen at run time. One pass over memory each: every array is
// read once and written once.
//
// Every set gives the same bits: the same operations in the same order for each element, no FMA contraction,
// no approximate reciprocal or root (docs/SYNC.md, What is reproducible). Of an optimizer's state, what is
// denormal is 0: the loops say so (element_steps.h), not a mode of the processor. NaN is one value here: IEEE
// 754 leaves open which payload comes out of an operation with two of them.
//
// Not meant for callers at large, who take OptimizerState and vector_ops.h; the tests and benchmarks name a
// set.
//
// How it is built: kernel_loops.h holds the loops, and kernels_plain.cc, kernels_avx2.cc and
// kernels_avx512.cc compile them under their own options (CMakeLists.txt). On other processors than x86-64
// only kPlain exists.
//
// Thread: any. The arrays are the caller's; they need no alignment beyond a float's.
#pragma once

#include <cstdint>

namespace paceline::kernels {

// kPlain is what every processor of the architecture has (on x86-64: SSE2). In order of preference, worst
// first, but for Adam's loops, of which AVX2's are the fastest.
enum class InstructionSet { kPlain, kAvx2, kAvx512 };

// How weight decay enters; `weight` is wd for kCoupled and kSign (the parameter's sign times it), and lr * wd for
// kDecoupled.
enum class Decay { kNone, kCoupled, kSign, kDecoupled };
struct WeightDecay {
  Decay kind = Decay::kNone;
  float weight = 0.0F;
};

// n elements; `out` is `in`, or `gradient`, or disjoint from both; everything else is disjoint.
struct Piece {
  const float* in;
  float* out;
  const float* gradient;
  std::int64_t n;
};

// u = momentum u + into g; what is subtracted is learning_rate (u, or into g + momentum u). By the form one of
// them has the rate, the other one is 1, and `into` has LARS' trust ratio (optimizer.h).
struct MomentumStep {
  float learning_rate;
  float momentum;
  bool nesterov;
  float into = 1.0F;
};

// rate = lr / (1 - b1^t), root_scale = 1 / sqrt(1 - b2^t): the two bias corrections.
struct AdamStep {
  float rate;
  float root_scale;
  float beta1;
  float one_minus_beta1;
  float beta2;
  float one_minus_beta2;
  float epsilon;
};

// h = keep h + add g g; rate g / (sqrt(h) + epsilon) is subtracted: AdaGrad and RMSProp. AdaDelta has the same
// numbers for both of its means.
struct SquareStep {
  float rate;
  float keep;
  float add;
  float epsilon;
};

// A stale gradient of n elements, the parameters now and those it was computed with, and what becomes of it,
// disjoint from the others.
struct Stale {
  const float* gradient;
  const float* now;
  const float* backup;
  float* out;
  std::int64_t n;
};

struct CompensationStep {
  float lambda;
  float decay;
  float one_minus_decay;
  float epsilon;
};

// Of sums: partial sums side by side, so that they can be made in wide registers.
inline constexpr std::int64_t kLanes = 8;

// The loops of one instruction set. The optimizers' state (`velocity`, `first`, `second`) is piece.n floats,
// updated in place. Of the others, the arrays of one call are equal or disjoint; n >= 0.
struct Kernels {
  InstructionSet set;
  const char* name;  // plain, avx2, avx512

  void (*sgd)(const Piece& piece, float learning_rate, WeightDecay decay);
  // The same, and whether a value of the gradient is NaN or infinite: seen in the same pass.
  bool (*sgd_and_check)(const Piece& piece, float learning_rate, WeightDecay decay);
  // The same; `out` is disjoint from the others, and written past the processor's caches where it can write
  // so: what is in them stays, and no line is read before it is written.
  bool (*sgd_past_cache)(const Piece& piece, float learning_rate, WeightDecay decay);
  void (*momentum)(const Piece& piece, float* velocity, const MomentumStep& step, WeightDecay decay);
  // The same, `out` likewise; the state, which has just been read, is written as ever. And so Adam's.
  void (*momentum_past_cache)(const Piece& piece, float* velocity, const MomentumStep& step,
                              WeightDecay decay);
  void (*adam)(const Piece& piece, float* first, float* second, const AdamStep& step, WeightDecay decay);
  void (*adam_past_cache)(const Piece& piece, float* first, float* second, const AdamStep& step,
                          WeightDecay decay);
  // AdaGrad, RMSProp.
  void (*over_root)(const Piece& piece, float* square, const SquareStep& step, WeightDecay decay);
  void (*adadelta)(const Piece& piece, float* square, float* step_square, const SquareStep& step,
                   WeightDecay decay);

  // LAMB, in passes, since a step's length is known only when all of a tensor's moments are: Adam's moments of
  // n gradients; then the squares of r + weight p, r = rate m / (sqrt(v) root_scale + epsilon), added to
  // `lanes` as by add_squares; then p - (r + weight p), with another rate and weight.
  void (*moments)(float* first, float* second, const float* gradient, const AdamStep& step, std::int64_t n);
  void (*add_direction_squares)(double* lanes, const float* parameters, const float* first,
                                const float* second, const AdamStep& step, float weight, std::int64_t n);
  void (*move_by_moments)(float* out, const float* in, const float* first, const float* second,
                          const AdamStep& step, float weight, std::int64_t n);
  // lanes[i mod kLanes] += values[i]^2 for i = 0, 1, ... n - 1, in that order. A square of a float is exact in a
  // double, so that no contraction changes a bit.
  void (*add_squares)(double* lanes, const float* values, std::int64_t n);

  // out = g + lambda g g (now - backup); adaptive: lambda / sqrt(m + epsilon) in its place, after
  // m = decay m + (1 - decay) g g
  void (*compensate)(const Stale& stale, float lambda);
  void (*compensate_adaptive)(const Stale& stale, float* mean_square, const CompensationStep& step);

  // sum = weight * gradient
  void (*begin_sum)(float* sum, const float* gradient, float weight, std::int64_t n);
  // sum = sum + weight * gradient
  void (*add_weighted)(float* sum, const float* gradient, float weight, std::int64_t n);
  // values = values * factor
  void (*scale)(float* values, float factor, std::int64_t n);
  // difference = minuend - subtrahend
  void (*subtract)(float* difference, const float* minuend, const float* subtrahend, std::int64_t n);
  // out = in, past the processor's caches likewise.
  void (*copy_past_cache)(float* out, const float* in, std::int64_t n);
  // The index of the first NaN or infinity; n when there is none.
  std::int64_t (*first_non_finite)(const float* values, std::int64_t n);
};

// The loops of `set`; nullptr when this build or this processor (or its operating system, which must save the
// wide registers) does not have it. kPlain always exists.
const Kernels* find(InstructionSet set);

// The best loops that there are, the same on every call: what OptimizerState and vector_ops.h run.
const Kernels& best();

}  // namespace paceline::kernels
