// Written to be read beside the formulas. Compiled without vectorisation (tests/subjects/params.cmake).
#include "tests/unit/optimizer_plain.h"

#include <cmath>
#include <limits>

namespace paceline::testing {

void PlainOptimizer::apply(std::vector<float>& parameters, const std::vector<float>& gradient,
                           double learning_rate) {
  ++steps;
  const auto rate = static_cast<float>(learning_rate);
  const auto mu = static_cast<float>(settings.momentum);
  const auto b1 = static_cast<float>(settings.beta1);
  const auto b2 = static_cast<float>(settings.beta2);
  const auto c1 = static_cast<float>(1.0 - settings.beta1);
  const auto c2 = static_cast<float>(1.0 - settings.beta2);
  const auto adam_rate = static_cast<float>(learning_rate / (1.0 - std::pow(settings.beta1, steps)));
  const auto root_scale = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(settings.beta2, steps)));
  const double hat = settings.epsilon_hat ? 1.0 / std::sqrt(1.0 - std::pow(settings.beta2, steps)) : 1.0;
  const auto epsilon =
      static_cast<float>(settings.epsilon * (settings.kind == OptimizerKind::kAdam ? hat : 1.0));
  const bool sums = settings.kind == OptimizerKind::kAdagrad;
  const float keep = sums ? 1.0F : static_cast<float>(settings.rho);
  const float add = sums ? 1.0F : static_cast<float>(1.0 - settings.rho);

  // What is smaller than any normal number is not kept.
  const auto kept = [](float state) {
    return std::fabs(state) < std::numeric_limits<float>::min() ? 0.0F : state;
  };

  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const float p = parameters[i];
    float g = gradient[i];
    if (settings.weight_decay != 0.0 && !settings.decoupled) {
      const float sign = p > 0.0F ? 1.0F : p < 0.0F ? -1.0F : 0.0F;
      g = g + static_cast<float>(settings.weight_decay) * (settings.decay_norm == DecayNorm::kL1 ? sign : p);
    }

    float step = 0.0F;
    switch (settings.kind) {
      case OptimizerKind::kSgd:
        step = rate * g;
        break;
      case OptimizerKind::kMomentum:
        if (settings.momentum_form == MomentumForm::kInside) {
          first[i] = kept(mu * first[i] + rate * g);
          step = settings.nesterov ? rate * g + mu * first[i] : first[i];
          break;
        }
        first[i] = kept(mu * first[i] + g);
        step = settings.nesterov ? rate * (g + mu * first[i]) : rate * first[i];
        break;
      case OptimizerKind::kAdam:
        first[i] = kept(b1 * first[i] + c1 * g);
        second[i] = kept(b2 * second[i] + c2 * (g * g));
        step = adam_rate * (first[i] / (std::sqrt(second[i]) * root_scale + epsilon));
        break;
      case OptimizerKind::kLars:
      case OptimizerKind::kLamb:  // in trust_ratio_test.cc: they need layouts
        break;
      case OptimizerKind::kAdagrad:
      case OptimizerKind::kRmsprop:
        first[i] = kept(keep * first[i] + add * (g * g));
        step = rate * (g / (std::sqrt(first[i]) + epsilon));
        break;
      case OptimizerKind::kAdadelta: {
        first[i] = kept(keep * first[i] + add * (g * g));
        const float u = g * std::sqrt((second[i] + epsilon) / (first[i] + epsilon));
        second[i] = kept(keep * second[i] + add * (u * u));
        step = rate * u;
        break;
      }
    }
    if (settings.weight_decay != 0.0 && settings.decoupled) {
      step = step + static_cast<float>(learning_rate * settings.weight_decay) * p;
    }
    parameters[i] = p - step;
  }
}

}  // namespace paceline::testing
