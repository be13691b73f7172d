#include "common/params/step_coefficients.h"

#include <cmath>

namespace paceline {

kernels::WeightDecay weight_decay(const OptimizerSection& settings, double learning_rate, double factor) {
  const double decay = settings.weight_decay * factor;
  if (decay == 0.0) return {};
  const bool decoupled = settings.kind == OptimizerKind::kLamb || settings.decoupled;
  const bool l1 = settings.decay_norm == DecayNorm::kL1;
  if (!decoupled) return {l1 ? kernels::Decay::kSign : kernels::Decay::kCoupled, static_cast<float>(decay)};
  return {kernels::Decay::kDecoupled, static_cast<float>(learning_rate * decay)};
}

kernels::AdamStep adam_step(const OptimizerSection& settings, double learning_rate, std::int64_t t) {
  const auto count = static_cast<double>(t);
  const bool corrects = settings.bias_correction;
  const double first = corrects ? 1.0 - std::pow(settings.beta1, count) : 1.0;
  const double root_scale = corrects ? 1.0 / std::sqrt(1.0 - std::pow(settings.beta2, count)) : 1.0;
  return {.rate = static_cast<float>(learning_rate / first),
          .root_scale = static_cast<float>(root_scale),
          .beta1 = static_cast<float>(settings.beta1),
          .one_minus_beta1 = static_cast<float>(1.0 - settings.beta1),
          .beta2 = static_cast<float>(settings.beta2),
          .one_minus_beta2 = static_cast<float>(1.0 - settings.beta2),
          .epsilon = static_cast<float>(settings.epsilon * (settings.epsilon_hat ? root_scale : 1.0))};
}

kernels::MomentumStep momentum_step(const OptimizerSection& settings, double learning_rate,
                                    double trust_ratio) {
  const bool inside = settings.momentum_form == MomentumForm::kInside;
  return {.learning_rate = static_cast<float>(inside ? 1.0 : learning_rate),
          .momentum = static_cast<float>(settings.momentum),
          .nesterov = settings.nesterov,
          .into = static_cast<float>(inside ? learning_rate * trust_ratio : trust_ratio)};
}

kernels::SquareStep square_step(const OptimizerSection& settings, double learning_rate) {
  const bool sums = settings.kind == OptimizerKind::kAdagrad;
  return {.rate = static_cast<float>(learning_rate),
          .keep = sums ? 1.0F : static_cast<float>(settings.rho),
          .add = sums ? 1.0F : static_cast<float>(1.0 - settings.rho),
          .epsilon = static_cast<float>(settings.epsilon)};
}

}  // namespace paceline
