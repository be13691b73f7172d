#include "common/params/step_coefficients.h"

#include <cmath>

namespace paceline {

kernels::WeightDecay weight_decay(const OptimizerSection& settings, double learning_rate, double factor) {
  const double decay = settings.weight_decay * factor;
  if (decay == 0.0) return {};
  if (!settings.decoupled) return {kernels::Decay::kCoupled, static_cast<float>(decay)};
  return {kernels::Decay::kDecoupled, static_cast<float>(learning_rate * decay)};
}

kernels::AdamStep adam_step(const OptimizerSection& settings, double learning_rate, std::int64_t t) {
  const auto count = static_cast<double>(t);
  return {.rate = static_cast<float>(learning_rate / (1.0 - std::pow(settings.beta1, count))),
          .root_scale = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(settings.beta2, count))),
          .beta1 = static_cast<float>(settings.beta1),
          .one_minus_beta1 = static_cast<float>(1.0 - settings.beta1),
          .beta2 = static_cast<float>(settings.beta2),
          .one_minus_beta2 = static_cast<float>(1.0 - settings.beta2),
          .epsilon = static_cast<float>(settings.epsilon)};
}

kernels::MomentumStep momentum_step(const OptimizerSection& settings, double learning_rate) {
  return {static_cast<float>(learning_rate), static_cast<float>(settings.momentum), settings.nesterov};
}

}  // namespace paceline
