// The elementwise loops of the optimizers over raw arrays (the formulas stand in optimizer.h). Separate from
// the class, so that this one translation unit can be compiled for speed in every build type and be compared
// with a plain loop.
#pragma once

#include <cstdint>

namespace paceline::kernels {

// How weight decay enters; `weight` is wd for kCoupled and lr * wd for kDecoupled.
enum class Decay { kNone, kCoupled, kDecoupled };
struct WeightDecay {
  Decay kind = Decay::kNone;
  float weight = 0.0F;
};

// n elements; `out` and `in` are equal or disjoint, everything else is disjoint.
struct Piece {
  const float* in;
  float* out;
  const float* gradient;
  std::int64_t n;
};

struct MomentumStep {
  float learning_rate;
  float momentum;
  bool nesterov;
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

void sgd(const Piece& piece, float learning_rate, WeightDecay decay);
void momentum(const Piece& piece, float* velocity, const MomentumStep& step, WeightDecay decay);
void adam(const Piece& piece, float* first, float* second, const AdamStep& step, WeightDecay decay);

}  // namespace paceline::kernels
