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
  const auto epsilon = static_cast<float>(settings.epsilon);

  // What is smaller than any normal number is not kept.
  const auto kept = [](float state) {
    return std::fabs(state) < std::numeric_limits<float>::min() ? 0.0F : state;
  };

  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const float p = parameters[i];
    float g = gradient[i];
    if (settings.weight_decay != 0.0 && !settings.decoupled)
      g = g + static_cast<float>(settings.weight_decay) * p;

    float step = 0.0F;
    switch (settings.kind) {
      case OptimizerKind::kSgd:
        step = rate * g;
        break;
      case OptimizerKind::kMomentum:
        first[i] = kept(mu * first[i] + g);
        step = settings.nesterov ? rate * (g + mu * first[i]) : rate * first[i];
        break;
      case OptimizerKind::kAdam:
        first[i] = kept(b1 * first[i] + c1 * g);
        second[i] = kept(b2 * second[i] + c2 * (g * g));
        step = adam_rate * (first[i] / (std::sqrt(second[i]) * root_scale + epsilon));
        break;
    }
    if (settings.weight_decay != 0.0 && settings.decoupled) {
      step = step + static_cast<float>(learning_rate * settings.weight_decay) * p;
    }
    parameters[i] = p - step;
  }
}

}  // namespace paceline::testing
