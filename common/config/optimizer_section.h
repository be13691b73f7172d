// An optimizer, as configured: the step, its learning rate's schedule, and what becomes of stale gradients
// (common/params/optimizer.h has the formulas).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace paceline {

enum class OptimizerKind { kSgd, kMomentum, kAdam, kAdagrad, kRmsprop, kAdadelta, kLars, kLamb };
// Whether a step needs sums over whole tensors before it changes an element (common/params/trust_ratio.h).
constexpr bool measures_tensors(OptimizerKind kind) {
  return kind == OptimizerKind::kLars || kind == OptimizerKind::kLamb;
}
// Where momentum has its learning rate: outside the kept step, or inside it, as Caffe
// (common/params/optimizer.h).
enum class MomentumForm { kOutside, kInside };
// What the learning rate of a larger mini-batch is multiplied by: its size over the base one's, or the root of that.
enum class RateScale { kNone, kLinear, kRoot };
// A rate that rises with each version, or one that is low and then is not.
enum class WarmUp { kGradual, kConstant };
enum class ScheduleKind { kConstant, kStep, kCosine, kExp, kInv, kMultistep, kPoly, kSigmoid };
// What the staleness of a gradient does to its step (common/params/staleness.h).
enum class StalenessScaling { kNone, kInverse, kInverseRoot };

// How a stale gradient is corrected before it is applied (common/params/delay_compensation.h).
enum class CompensationKind { kNone, kConstant, kAdaptive };
struct CompensationSection {
  CompensationKind kind = CompensationKind::kNone;
  double lambda = 0.04;
  double decay = 0.95;  // adaptive: of the mean squared gradient
  bool operator==(const CompensationSection&) const = default;
};

// Learning rate as a function of the version (common/params/schedule.h).
struct ScheduleSection {
  ScheduleKind kind = ScheduleKind::kConstant;
  RateScale scale = RateScale::kNone;
  std::int64_t base_batch = 256;     // scale: samples of a step that lr is meant for
  std::int64_t warmup_versions = 0;  // linear from lr / warmup to lr, or as the next two say
  WarmUp warmup = WarmUp::kGradual;
  std::optional<double> warmup_factor;  // times the rate: where the warm-up begins
  std::int64_t step_versions = 0;       // step: every so many versions ...; sigmoid: the middle
  double step_factor = 0.1;             // ... lr is multiplied by this; multistep: the same
  std::optional<std::int64_t>
      total_versions;                 // cosine, poly: the end of the curve; null: the run's planned versions
  double final_factor = 0.0;          // cosine, poly: lr ends at lr x final_factor
  std::vector<std::int64_t> step_at;  // multistep: the versions at which lr is multiplied, rising
  double gamma = 0.0;                 // exp, inv, sigmoid
  double power = 1.0;                 // inv, poly
  // The same in epochs, as asked for; loading makes versions of them (common/config/epochs.cc).
  std::optional<double> warmup_epochs{};
  std::optional<double> step_epochs{};
  std::vector<double> step_at_epochs{};
  std::optional<double> total_epochs{};
  // No key: what `scale` makes of the run's mini-batch.
  double scale_factor = 1.0;
  bool operator==(const ScheduleSection&) const = default;
};

// Which tensors something is of: all, or weights without biases and norms.
enum class TensorsOf { kAll, kWeights };
// Which norm of a gradient LARS divides by: its own, or that of the gradient with its decay.
enum class TrustNorm { kGradient, kWithDecay };
// What weight decay is the gradient of: half the square of a parameter, or its absolute value.
enum class DecayNorm { kL2, kL1 };

struct OptimizerSection {
  OptimizerKind kind = OptimizerKind::kSgd;
  double lr = 0.01;
  double momentum = 0.9;  // momentum, lars
  bool nesterov = false;  // momentum, lars
  MomentumForm momentum_form = MomentumForm::kOutside;
  double beta1 = 0.9;           // adam, lamb
  double beta2 = 0.999;         // adam, lamb
  bool bias_correction = true;  // adam, lamb
  double epsilon = 1e-8;        // adam, adagrad, rmsprop, adadelta, lars, lamb
  bool epsilon_hat = false;     // adam: epsilon as it is, beside the root that is not corrected
  double rho = 0.99;            // rmsprop, adadelta: the share of the mean square that is kept
  double weight_decay = 0.0;
  bool decoupled = false;  // weight decay applied to the parameters (AdamW) instead of added to the gradient
  TensorsOf decay = TensorsOf::kAll;
  DecayNorm decay_norm = DecayNorm::kL2;
  // lars, lamb (common/params/trust_ratio.h)
  double trust_coefficient = 0.001;             // lars
  std::optional<double> trust_ratio_max;        // null: no bound
  TrustNorm trust_norm = TrustNorm::kGradient;  // lars
  bool trust_clip = false;                      // lars: no step is longer than the rate's (LARC)
  TensorsOf trust = TensorsOf::kWeights;        // whose steps are multiplied by their trust ratio
  StalenessScaling staleness = StalenessScaling::kNone;
  CompensationSection delay_compensation;
  ScheduleSection schedule;
  // No key: the servers', where workers have an inner optimizer. What it is given are deltas, made with the
  // layout's factors already.
  bool of_deltas = false;
  bool operator==(const OptimizerSection&) const = default;
};

}  // namespace paceline
